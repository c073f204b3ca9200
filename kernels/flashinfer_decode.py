"""Decode attention by FlashInfer, where it is installed: its paged layout is the cache's own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kvsim.kernels.decode_attention import Planned

_WORKSPACE_BYTES = 128 * 1024 * 1024
_TENSOR_CORE_GROUP = 4
"""Query heads of a KV head from which on its tensor-core kernel is the faster one."""


def plan_flashinfer(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
) -> Planned:
    """Plan once a step, as engines do: it reads the lengths on the host.

    Arguments as :func:`~kvsim.kernels.decode_attention.plan_decode`.
    """
    import flashinfer  # noqa: PLC0415 - only where it is installed

    num_rows, num_heads, head_dim = query.shape
    _, _, block_size, num_kv_heads, _ = kv_cache.shape
    pages = (context_lens + block_size - 1) // block_size
    indptr = torch.zeros(num_rows + 1, dtype=torch.int32, device=query.device)
    indptr[1:] = pages.cumsum(0)
    columns = torch.arange(block_tables.shape[1], device=query.device)
    indices = block_tables[columns < pages.unsqueeze(-1)]
    last_page = (context_lens - (pages - 1) * block_size).to(torch.int32)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        _workspace(query.device),
        "NHD",
        use_tensor_cores=num_heads // num_kv_heads >= _TENSOR_CORE_GROUP,
    )
    wrapper.plan(
        indptr,
        indices,
        last_page,
        num_heads,
        num_kv_heads,
        head_dim,
        block_size,
        q_data_type=query.dtype,
        kv_data_type=kv_cache.dtype,
    )
    run: Planned = wrapper.run
    return run


@cache
def _workspace(device: torch.device) -> torch.Tensor:
    """Scratch of all plans, of which one runs at a time."""
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
