"""Attention of a step that holds prompt chunks and decodes, all over one paged cache.

Two kernels: each chunk attends to its own context, then all decodes at once. Engines that pack both
into one call pay differently (flash-attn 2: the decodes lose the packing of query heads).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvsim.kernels.decode_attention import decode_attention
from kvsim.kernels.paged_cache import gather_kv
from kvsim.kernels.prefill_attention import prefill_attention

if TYPE_CHECKING:
    from collections.abc import Sequence


def mixed_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    query_lens: Sequence[int],
) -> torch.Tensor:
    """Attend from the last ``query_lens[i]`` tokens of each sequence i.

    Parameters
    ----------
    query : [N, num_heads, head_dim]
        Sequences one after the other, N = sum of ``query_lens``.
    kv_cache, block_tables, context_lens
        As :func:`~kvsim.kernels.decode_attention.decode_attention`, one row a sequence.
    query_lens
        Tokens of each sequence in the step; those with one are decodes.
    """
    out = torch.empty_like(query)
    starts = [0]
    for count in query_lens:
        starts.append(starts[-1] + count)
    decodes = [row for row, count in enumerate(query_lens) if count == 1]
    if decodes:
        rows = torch.tensor(decodes, device=query.device)
        places = torch.tensor([starts[row] for row in decodes], device=query.device)
        out[places] = decode_attention(
            query[places], kv_cache, block_tables[rows], context_lens[rows]
        )
    chunks = [row for row, count in enumerate(query_lens) if count > 1]
    lengths = context_lens.tolist() if chunks else []
    for row in chunks:
        key, value = gather_kv(kv_cache, block_tables[row], lengths[row])
        part = slice(starts[row], starts[row + 1])
        out[part] = prefill_attention(query[part], key.to(query.dtype), value.to(query.dtype))
    return out
