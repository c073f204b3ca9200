"""Decode attention over a block table: one new token a sequence, contexts of any lengths.

Three implementations of one function: Triton with the context split over programs (CUDA),
FlashInfer instead where it is installed, and gather + SDPA (everywhere else).
:func:`implementation` names the one that runs, for profiles. A step plans its attention once, on
the host, and runs the plan in every layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Final, TypeAlias

import torch
from torch.nn import functional

from kvsim.kernels.paged_cache import gather_kv

_FLASHINFER_DTYPES: Final = (torch.float16, torch.bfloat16)
_FLASHINFER_DIMS: Final = (64, 128, 256)
Planned: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Attention whose batch is settled: from a query and a layer's KV cache to its answer."""


def decode_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
) -> torch.Tensor:
    """Attend from the last token of each sequence to all of its context.

    Parameters
    ----------
    query : [B, num_heads, head_dim]
    kv_cache : [num_blocks, 2, block_size, num_kv_heads, head_dim]
        Entries of the block tables beyond a context are never read.
    block_tables : int32, [B, max_blocks]
    context_lens : int32, [B], >= 1
        Tokens of each sequence, the new one included; its K and V are written already.

    Returns
    -------
    [B, num_heads, head_dim], scaled by ``head_dim ** -0.5``.
    """
    return plan_decode(query, kv_cache, block_tables, context_lens)(query, kv_cache)


def plan_decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
) -> Planned:
    """Settle the batch; arguments as :func:`decode_attention`.

    ``query`` and ``kv_cache`` give shapes and dtypes; the plan holds for all that have the same.
    """
    kernel = implementation(query.device, query.dtype, query.shape[-1])
    if kernel == "flashinfer_decode":
        from kvsim.kernels.flashinfer_decode import plan_flashinfer  # noqa: PLC0415

        return plan_flashinfer(query, kv_cache, block_tables, context_lens)
    if kernel == "triton_split_k":
        from kvsim.kernels.triton_decode import triton_split_k  # noqa: PLC0415

        return partial(triton_split_k, block_tables=block_tables, context_lens=context_lens)
    return partial(gather_and_sdpa, block_tables=block_tables, context_lens=context_lens)


def implementation(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    """Which kernel :func:`decode_attention` runs, for queries of such a kind."""
    if device.type != "cuda":
        return "gather_and_sdpa"
    if dtype in _FLASHINFER_DTYPES and head_dim in _FLASHINFER_DIMS and _is_installed("flashinfer"):
        return "flashinfer_decode"
    return "triton_split_k" if _is_installed("triton") else "gather_and_sdpa"


def gather_and_sdpa(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
) -> torch.Tensor:
    """Copy each context out of its blocks, then attend to it: reads everything twice."""
    out = torch.empty_like(query)
    for row, length in enumerate(context_lens.tolist()):
        key, value = gather_kv(kv_cache, block_tables[row], length)
        out[row] = contiguous_decode(query[row : row + 1], key.unsqueeze(0), value.unsqueeze(0))[0]
    return out


def contiguous_decode(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Decode attention over contiguous KV of equal lengths, what paging is compared with.

    Query ``[B, num_heads, head_dim]``, key and value ``[B, length, num_kv_heads, head_dim]``. The
    query heads of a KV head are rows of one product, so that K and V are not repeated for each.
    """
    out = functional.scaled_dot_product_attention(
        query.reshape(query.shape[0], key.shape[2], -1, query.shape[2]),
        key.to(query.dtype).transpose(1, 2),
        value.to(query.dtype).transpose(1, 2),
    )
    return out.flatten(1, 2)


@cache
def _is_installed(package: str) -> bool:
    """Looked for once: searching the file system in every layer takes as long as a kernel."""
    return find_spec(package) is not None
