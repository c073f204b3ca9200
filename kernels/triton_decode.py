"""Paged decode attention in Triton, the context split over programs (flash-decoding).

    program (sequence, kv head, split)    online softmax over its part of the context
    program (sequence, head)              merges the splits by their log-sum-exp

All query heads of a KV head are served by one program, so K and V are read once. Softmax and sums
are float32 whatever the cache holds. Source of the split: Dao et al., "Flash-Decoding" (2023).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_TILE = 64
"""Tokens a program loads at a time; they may lie in several blocks."""
_MIN_ROWS = 16
"""Rows that ``tl.dot`` takes at least."""
_PROGRAMS = 1024
"""Programs aimed at: a few for each multiprocessor of a large card."""


@triton.jit
def _attend(
    query,
    cache,
    tables,
    lengths,
    partial,
    log_sums,
    scale,
    query_row,
    query_head,
    cache_block,
    cache_kind,
    cache_token,
    cache_head,
    table_row,
    split_tokens,
    num_splits: tl.constexpr,
    block_size: tl.constexpr,
    group: tl.constexpr,
    rows: tl.constexpr,
    head_dim: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    heads = tl.arange(0, rows)
    dims = tl.arange(0, width)
    in_group = heads < group
    in_dims = dims < head_dim
    length = tl.load(lengths + row)
    first = split * split_tokens
    last = tl.minimum(first + split_tokens, length)

    q_rows = (kv_head * group + heads)[:, None] * query_head + dims[None, :]
    in_query = in_group[:, None] & in_dims[None, :]
    q = tl.load(query + row * query_row + q_rows, mask=in_query, other=0.0)
    best = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    acc = tl.zeros([rows, width], tl.float32)
    for start in range(first, last, tile):
        tokens = start + tl.arange(0, tile)
        there = tokens < last
        blocks = tl.load(tables + row * table_row + tokens // block_size, mask=there, other=0)
        base = blocks.to(tl.int64) * cache_block + (tokens % block_size) * cache_token
        places = base[:, None] + kv_head * cache_head + dims[None, :]
        inside = there[:, None] & in_dims[None, :]
        k = tl.load(cache + places, mask=inside, other=0.0).to(q.dtype)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(there[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp(best - higher)
        weights = tl.exp(scores - higher[:, None])
        v = tl.load(cache + cache_kind + places, mask=inside, other=0.0).to(q.dtype)
        acc = acc * shrink[:, None] + tl.dot(weights.to(q.dtype), v, input_precision="ieee")
        total = total * shrink + tl.sum(weights, 1)
        best = higher
    filled = last > first
    out_rows = (row * tl.num_programs(1) * group + kv_head * group + heads) * num_splits + split
    safe = tl.where(filled, total, 1.0)
    tl.store(
        partial + out_rows[:, None] * head_dim + dims[None, :],
        acc / safe[:, None],
        mask=in_query,
    )
    log_sum = tl.where(filled, best + tl.log(safe), float("-inf"))
    tl.store(log_sums + out_rows, log_sum, mask=in_group)


@triton.jit
def _merge(
    partial,
    log_sums,
    out,
    num_splits: tl.constexpr,
    padded_splits: tl.constexpr,
    head_dim: tl.constexpr,
    width: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    numbers = tl.arange(0, padded_splits)
    dims = tl.arange(0, width)
    there = numbers < num_splits
    log_sum = tl.load(log_sums + row * num_splits + numbers, mask=there, other=float("-inf"))
    weights = tl.exp(log_sum - tl.max(log_sum, 0))
    weights = weights / tl.sum(weights, 0)
    places = (row * num_splits + numbers)[:, None] * head_dim + dims[None, :]
    inside = there[:, None] & (dims < head_dim)[None, :]
    parts = tl.load(partial + places, mask=inside, other=0.0)
    merged = tl.sum(parts * weights[:, None], 0)
    tl.store(out + row * head_dim + dims, merged, mask=dims < head_dim)


def triton_split_k(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    num_splits: int | None = None,
) -> torch.Tensor:
    """Decode attention; arguments as :func:`~kvsim.kernels.decode_attention.decode_attention`.

    ``num_splits``: programs a context is split over; ``None`` = so many that the card is full, by
    the longest context that the tables could hold (lengths are not read on the host).
    """
    num_rows, num_heads, head_dim = query.shape
    _, _, block_size, num_kv_heads, _ = kv_cache.shape
    longest = block_tables.shape[1] * block_size
    if num_splits is None:
        num_splits = min(-(-_PROGRAMS // (num_rows * num_kv_heads)), -(-longest // _TILE))
    tiles = -(-longest // (_TILE * num_splits))
    group = num_heads // num_kv_heads
    query = query.contiguous()
    partial = torch.empty(
        num_rows, num_heads, num_splits, head_dim, dtype=torch.float32, device=query.device
    )
    log_sums = torch.empty(
        num_rows, num_heads, num_splits, dtype=torch.float32, device=query.device
    )
    out = torch.empty_like(query)
    width = triton.next_power_of_2(head_dim)
    _attend[num_rows, num_kv_heads, num_splits](
        query,
        kv_cache,
        block_tables,
        context_lens,
        partial,
        log_sums,
        head_dim**-0.5,
        query.stride(0),
        query.stride(1),
        kv_cache.stride(0),
        kv_cache.stride(1),
        kv_cache.stride(2),
        kv_cache.stride(3),
        block_tables.stride(0),
        tiles * _TILE,
        num_splits=num_splits,
        block_size=block_size,
        group=group,
        rows=max(triton.next_power_of_2(group), _MIN_ROWS),
        head_dim=head_dim,
        width=width,
        tile=_TILE,
    )
    _merge[(num_rows * num_heads,)](
        partial,
        log_sums,
        out,
        num_splits=num_splits,
        padded_splits=triton.next_power_of_2(num_splits),
        head_dim=head_dim,
        width=width,
    )
    return out
