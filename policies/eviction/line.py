"""The candidates of a queue: entries that may be evicted, by their number in the queue."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Generic

from kvsim.policies.eviction.base import E


class Line(Generic[E]):
    """Candidates, smallest number first, without the queued entries that may not be evicted.

    Finding one is O(log n). Adding or removing one also moves the later items of a plain list.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._entries: dict[int, E] = {}

    def enter(self, number: int, entry: E) -> None:
        """Make an entry a candidate, if it is not one."""
        if number not in self._entries:
            insort(self._numbers, number)
            self._entries[number] = entry

    def leave(self, number: int) -> None:
        """Remove a candidate, if it is one."""
        if self._entries.pop(number, None) is not None:
            del self._numbers[bisect_left(self._numbers, number)]

    def from_number(self, number: int) -> tuple[int, E]:
        """Return the first candidate with this number or a larger one, else the first of all."""
        place = bisect_left(self._numbers, number)
        found = self._numbers[place if place < len(self._numbers) else 0]
        return found, self._entries[found]

    def __contains__(self, number: int) -> bool:
        return number in self._entries

    def __len__(self) -> int:
        return len(self._numbers)

    def check_invariants(self) -> None:
        """Verify that the numbers are sorted and match the entries; O(n log n)."""
        assert self._numbers == sorted(self._entries), "numbers and entries differ"
