"""Attention of a step that holds prompt chunks and decodes, all over one paged cache.

Two kernels: each chunk attends to its own context, then all decodes at once. Engines that pack both
into one call pay differently (flash-attn 2: the decodes lose the packing of query heads).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from kvsim.kernels.decode_attention import plan_decode
from kvsim.kernels.paged_cache import gather_kv
from kvsim.kernels.prefill_attention import prefill_attention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.kernels.decode_attention import Planned


def plan_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: Sequence[int],
    query_lens: Sequence[int],
) -> Planned:
    """Settle the batch of a step: attend from the last ``query_lens[i]`` tokens of sequence i.

    All that needs the host is done here, once a step; the plan runs in every layer without waiting
    for the device, so that a CUDA graph can hold it.

    Parameters
    ----------
    query : [N, num_heads, head_dim]
        Sequences one after the other, N = sum of ``query_lens``. It and the cache give shapes and
        dtypes; the plan holds for all that have the same.
    kv_cache, block_tables
        As :func:`~kvsim.kernels.decode_attention.decode_attention`, one row a sequence.
    context_lens
        Tokens of each sequence, the new ones included.
    query_lens
        Tokens of each sequence in the step; those with one are decodes.
    """
    device = query.device
    ends = list(accumulate(query_lens))
    decodes = [row for row, count in enumerate(query_lens) if count == 1]
    chunks = [
        (slice(ends[row] - count, ends[row]), block_tables[row], context_lens[row])
        for row, count in enumerate(query_lens)
        if count > 1
    ]
    if decodes:
        places = torch.tensor([ends[row] - 1 for row in decodes], device=device)
        lengths = torch.tensor(
            [context_lens[row] for row in decodes], dtype=torch.int32, device=device
        )
        tables = block_tables[torch.tensor(decodes, device=device)]
        decode = plan_decode(query[places], kv_cache, tables, lengths)
        if not chunks:
            return decode

    def attend(query: torch.Tensor, kv_cache: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(query)
        if decodes:
            out[places] = decode(query[places], kv_cache)
        for part, table, length in chunks:
            key, value = gather_kv(kv_cache, table, length)
            out[part] = prefill_attention(query[part], key.to(query.dtype), value.to(query.dtype))
        return out

    return attend
