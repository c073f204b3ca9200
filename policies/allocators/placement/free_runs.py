"""Runs of exactly the requested size, and the holes between them: base of the fit rules.

address   0      40        70  80      100
          [taken][  hole  ][t.][ hole  ]      no two holes touch
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort

from kvsim.policies.allocators.placement.base import check_tiles


class FreeRuns(ABC):
    """A placement without round-up; a subclass (a fit) chooses the hole of a run.

    Each token is in exactly one run or hole, and no two holes touch.
    """

    name: str

    def __init__(self, num_tokens: int) -> None:
        self._num_tokens = self.num_free = num_tokens
        self._starts = [0] if num_tokens else []  # of holes, sorted
        self._holes = {0: num_tokens} if num_tokens else {}
        self._runs: dict[int, int] = {}

    @abstractmethod
    def _hole_for(self, num_tokens: int) -> int | None:
        """Return the address of the hole for a run, among those that can hold it."""

    def rounded(self, num_tokens: int) -> int:
        """Return exactly the requested size."""
        assert num_tokens > 0, "a run holds at least one token"
        return num_tokens

    def alloc(self, num_tokens: int) -> int | None:
        """Take the front of a hole; O(holes)."""
        address = self._hole_for(self.rounded(num_tokens))
        if address is not None:
            self._take(address, num_tokens)
        return address

    def free(self, address: int) -> None:
        """Turn a run into a hole, joined with the holes that it touches; O(holes)."""
        length = self._runs.pop(address)
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

    def size_of(self, address: int) -> int:
        """Return the tokens of a run."""
        return self._runs[address]

    def largest_hole(self) -> int:
        """Return the tokens of the largest hole; O(holes)."""
        return max(self._holes.values(), default=0)

    def room_at(self, address: int) -> int:
        """Return the tokens of the run and the hole behind it."""
        length = self._runs[address]
        return length + self._holes.get(address + length, 0)

    def extend(self, address: int, num_tokens: int) -> None:
        """Take the front of the hole behind the run; O(holes)."""
        assert num_tokens <= self.room_at(address), f"no room behind the run at {address}"
        length = self._runs[address]
        if num_tokens > length:
            self._take(address + length, num_tokens - length)
            self._runs[address] += self._runs.pop(address + length)

    def slide(self, num_tokens: int) -> list[tuple[int, int]]:
        """Slide runs down until a hole holds ``num_tokens``; as many must be free in sum.

        The run behind the lowest hole moves to the front of that hole. This repeats until the
        lowest hole is large enough. Returns ``(from, to)`` of each run, in this order; O(runs x
        holes).
        """
        assert num_tokens <= self.num_free, "sliding makes no room"
        moves = []
        while self._holes[self._starts[0]] < num_tokens:
            hole = self._starts[0]
            address = hole + self._holes[hole]
            length = self._runs[address]
            self.free(address)
            self._take(hole, length)
            moves.append((address, hole))
        return moves

    def _take(self, address: int, num_tokens: int) -> None:
        """Turn the front of the hole at ``address`` into a run."""
        length = self._holes.pop(address)
        place = bisect_left(self._starts, address)
        if length == num_tokens:
            del self._starts[place]
        else:
            self._starts[place] = address + num_tokens
            self._holes[address + num_tokens] = length - num_tokens
        self._runs[address] = num_tokens
        self.num_free -= num_tokens

    def check_invariants(self) -> None:
        """Verify tiles, order and joins."""
        check_tiles(self._runs, self._holes, self._num_tokens)
        assert sum(self._holes.values()) == self.num_free, "free count is off"
        assert self._starts == sorted(self._holes), "holes are out of order"
        for start, length in self._holes.items():
            assert start + length not in self._holes, f"the holes at {start} touch"
