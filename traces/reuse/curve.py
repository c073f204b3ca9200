"""Hits at every capacity, from stack positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.reuse.stack import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reuse.accesses import Accesses


@dataclass(frozen=True, slots=True)
class Hits:
    """What a cache of one capacity served of what was counted.

    Attributes
    ----------
    blocks, tokens
        Hits.
    all_blocks, all_tokens
        What was looked up: blocks, and all tokens of the prompts counted, those without an id
        included.
    """

    blocks: int
    tokens: int
    all_blocks: int
    all_tokens: int

    @property
    def block_ratio(self) -> float:
        """Hit blocks / blocks looked up."""
        return self.blocks / self.all_blocks if self.all_blocks else 0.0

    @property
    def token_ratio(self) -> float:
        """Hit tokens / prompt tokens."""
        return self.tokens / self.all_tokens if self.all_tokens else 0.0

    def ratio(self, unit: str) -> float:
        """Hit ratio in ``blocks`` or ``tokens``."""
        return self.block_ratio if unit == "blocks" else self.token_ratio


@dataclass(frozen=True, slots=True)
class Counted:
    """Which look-ups count: those of the requests from ``first`` to before ``end``."""

    requests: slice
    mask: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    all_blocks: int
    all_tokens: int

    @classmethod
    def of(cls, accesses: Accesses, first: int = 0, end: int | None = None) -> Counted:
        """Count the look-ups of a stretch of requests; earlier ones only warm the cache up."""
        stretch = slice(first, len(accesses) if end is None else end)
        mask = accesses.is_lookup()
        mask[: accesses.offsets[stretch.start]] = False
        mask[accesses.offsets[stretch.stop] :] = False
        tokens = int(accesses.prompt_tokens[stretch].sum())
        return cls(stretch, mask, accesses.tokens(), int(mask.sum()), tokens)

    def hits(self, hit: NDArray[np.bool_]) -> Hits:
        """Sum up the look-ups that hit; ``hit`` has an entry for each block of the accesses."""
        served = hit & self.mask
        tokens = int(self.tokens[served].sum())
        return Hits(int(served.sum()), tokens, self.all_blocks, self.all_tokens)


@dataclass(frozen=True, slots=True)
class Curve:
    """Hits of LRU at all capacities.

    ``capacities`` are those at which the number of hits grows (int64, increasing); ``blocks`` and
    ``tokens`` are the hits from there on up to the next one.
    """

    capacities: NDArray[np.int64]
    blocks: NDArray[np.int64]
    tokens: NDArray[np.int64]
    all_blocks: int
    all_tokens: int

    @classmethod
    def of(cls, positions: NDArray[np.int64], counted: Counted) -> Curve:
        """Sum up by position; O(blocks)."""
        wanted = counted.mask & (positions != NEVER)
        where, weights = positions[wanted], counted.tokens[wanted]
        blocks = np.bincount(where)
        # float64 is exact: no sum comes near 2**53
        tokens = np.bincount(where, weights=weights).astype(np.int64)
        capacities = np.flatnonzero(blocks)
        return cls(
            capacities,
            np.cumsum(blocks[capacities]),
            np.cumsum(tokens[capacities]),
            counted.all_blocks,
            counted.all_tokens,
        )

    def at(self, capacity_blocks: int) -> Hits:
        """Hits of a cache of ``capacity_blocks``; O(log capacities)."""
        index = int(np.searchsorted(self.capacities, capacity_blocks, side="right")) - 1
        if index < 0:
            return Hits(0, 0, self.all_blocks, self.all_tokens)
        return Hits(
            int(self.blocks[index]), int(self.tokens[index]), self.all_blocks, self.all_tokens
        )

    @property
    def largest_useful(self) -> int:
        """The capacity from which on nothing more is gained; 0 where nothing is ever hit."""
        return int(self.capacities[-1]) if len(self.capacities) else 0
