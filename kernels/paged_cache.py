"""A real paged KV cache: one tensor a layer, written through slots, read through block tables.

    kv_cache     [num_blocks, 2, block_size, num_kv_heads, head_dim]     K at 0, V at 1
    slot         block * block_size + offset in the block                int64
    block table  physical blocks of a sequence in order, padded          int32, [B, max_blocks]

K and V of a block lie side by side, so one block of one layer is one contiguous copy.
"""

from __future__ import annotations

import torch


def make_cache(
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    head_dim: int,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Uninitialised cache of one layer."""
    return torch.empty(
        num_blocks, 2, block_size, num_kv_heads, head_dim, device=device, dtype=dtype
    )


def write_kv(
    kv_cache: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor
) -> None:
    """Write K and V of N tokens, ``[N, num_kv_heads, head_dim]`` each, to their slots ``[N]``."""
    block_size = kv_cache.shape[2]
    blocks, offsets = slots // block_size, slots % block_size
    kv_cache[blocks, 0, offsets] = key.to(kv_cache.dtype)
    kv_cache[blocks, 1, offsets] = value.to(kv_cache.dtype)


def gather_kv(
    kv_cache: torch.Tensor, block_table: torch.Tensor, num_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of one sequence in order, ``[num_tokens, num_kv_heads, head_dim]`` each: one copy."""
    block_size = kv_cache.shape[2]
    blocks = block_table[: -(-num_tokens // block_size)]
    # As bytes: index_select of some torch versions knows no fp8 on CUDA.
    stored = kv_cache.view(torch.uint8) if kv_cache.element_size() == 1 else kv_cache
    key, value = (part.index_select(0, blocks).flatten(0, 1) for part in stored.unbind(1))
    return key[:num_tokens].view(kv_cache.dtype), value[:num_tokens].view(kv_cache.dtype)


def slots_of(block_table: torch.Tensor, positions: torch.Tensor, block_size: int) -> torch.Tensor:
    """Slots of positions of one sequence; int64, as ``positions``."""
    return block_table[positions // block_size].long() * block_size + positions % block_size
