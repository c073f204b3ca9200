"""Decode attention by FlashInfer, where it is installed: its paged layout is the cache's own."""

from __future__ import annotations

import torch

_WORKSPACE_BYTES = 128 * 1024 * 1024


def flashinfer_decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
) -> torch.Tensor:
    """Decode attention; arguments as :func:`~kvsim.kernels.decode_attention.decode_attention`.

    FlashInfer's plan is made anew at each call: it reads the lengths on the host, as engines do
    once a step.
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
    workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=query.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD")
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
    result: torch.Tensor = wrapper.run(query, kv_cache)
    return result
