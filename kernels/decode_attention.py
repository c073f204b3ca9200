"""Decode attention over a block table: one new token a sequence, contexts of any lengths.

Three implementations of one function: Triton with the context split over programs (CUDA),
FlashInfer instead where it is installed, and gather + SDPA (everywhere else).
:func:`implementation` names the one that runs, for profiles.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from kvsim.kernels.paged_cache import gather_kv

if TYPE_CHECKING:
    from collections.abc import Callable


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
    return _chosen(query.device)(query, kv_cache, block_tables, context_lens)


def implementation(device: torch.device) -> str:
    """Which kernel :func:`decode_attention` runs on a device."""
    return _chosen(device).__name__


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


def _chosen(device: torch.device) -> Callable[..., torch.Tensor]:
    if device.type == "cuda" and find_spec("flashinfer") is not None:
        from kvsim.kernels.flashinfer_decode import flashinfer_decode  # noqa: PLC0415

        return flashinfer_decode
    if device.type == "cuda" and find_spec("triton") is not None:
        from kvsim.kernels.triton_decode import triton_split_k  # noqa: PLC0415

        return triton_split_k
    return gather_and_sdpa
