"""Sizes of the KV pool of a run: input of the engine, and units of its recordings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolShape:
    """Sizes of the pool; ``num_blocks`` counts the null block, ``remainder_bytes`` fit no block.

    Without block tables a block is one slot, and none of them is a null block.
    """

    num_blocks: int
    block_size: int
    block_bytes: int
    remainder_bytes: int = 0
    num_null_blocks: int = 1
    scores_per_token: int = 0
    """Attention scores beside each kept token, outside the pool, where retention keeps any."""

    @property
    def pool_bytes(self) -> int:
        """All KV memory."""
        return self.num_blocks * self.block_bytes + self.remainder_bytes
