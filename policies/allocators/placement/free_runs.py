"""Holes of exact size in order of address, for first fit and best fit.

address   0      40        70  80      100
          [taken][  hole  ][t.][ hole  ]      no two holes touch
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from kvsim.policies.allocators.placement.base import check_tiles

if TYPE_CHECKING:
    from collections.abc import Iterator


class FreeRuns:
    """Runs and holes of one pool; each token is in exactly one, and no two holes touch."""

    def __init__(self, num_tokens: int) -> None:
        self._num_tokens = self.num_free = num_tokens
        self._starts = [0] if num_tokens else []  # of holes, sorted
        self._holes = {0: num_tokens} if num_tokens else {}
        self.runs: dict[int, int] = {}

    def holes(self) -> Iterator[tuple[int, int]]:
        """``(address, tokens)`` of each hole, lowest first."""
        return ((start, self._holes[start]) for start in self._starts)

    def largest(self) -> int:
        """Tokens of the largest hole; O(holes)."""
        return max(self._holes.values(), default=0)

    def take(self, address: int, num_tokens: int) -> None:
        """Take a run from the front of the hole at ``address``; O(holes)."""
        length = self._holes.pop(address)
        assert num_tokens <= length, f"the hole at {address} has {length} tokens only"
        place = bisect_left(self._starts, address)
        if length == num_tokens:
            del self._starts[place]
        else:
            self._starts[place] = address + num_tokens
            self._holes[address + num_tokens] = length - num_tokens
        self.runs[address] = num_tokens
        self.num_free -= num_tokens

    def give(self, address: int) -> None:
        """Make a run a hole, joined with those it touches; O(holes)."""
        length = self.runs.pop(address)
        self.num_free += length
        place = bisect_left(self._starts, address)
        if place < len(self._starts) and self._starts[place] == address + length:
            length += self._holes.pop(self._starts.pop(place))
        if place:
            before = self._starts[place - 1]
            if before + self._holes[before] == address:
                self._holes[before] += length
                return
        insort(self._starts, address)
        self._holes[address] = length

    def check_invariants(self) -> None:
        """Verify tiles, order and joins."""
        check_tiles(self.runs, self._holes, self._num_tokens)
        assert sum(self._holes.values()) == self.num_free, "free count is off"
        assert self._starts == sorted(self._holes), "holes are out of order"
        for start, length in self._holes.items():
            assert start + length not in self._holes, f"the holes at {start} touch"
