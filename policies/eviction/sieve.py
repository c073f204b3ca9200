"""SIEVE: a queue with a mark for each entry and a hand that moves from old to new.

Source: Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, algorithm 1. There every object may be
evicted. Here the hand skips entries in use, or with children, and does not change their marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.eviction.base import E, EvictionOrder
from kvsim.policies.eviction.line import Line

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext


class Sieve(EvictionOrder[E]):
    """An access sets the mark and moves nothing; the first candidate without a mark is evicted.

    The hand clears the marks that it meets. It stays behind the entry that it evicted. After the
    newest entry it continues with the oldest.
    """

    def __init__(self, context: PolicyContext) -> None:
        del context
        self._number: dict[E, int] = {}
        self._marked: set[E] = set()
        self._line: Line[E] = Line()
        self._num_joined = 0
        self._hand = 0

    def inserted(self, entry: E) -> None:
        """Append the entry to the queue, without a mark."""
        self._num_joined += 1
        self._number[entry] = self._num_joined

    def referenced(self, entry: E) -> None:
        """Set the mark."""
        self._marked.add(entry)

    def split(self, entry: E, upper: E) -> None:
        """Append the new upper part to the queue, marked if the whole was marked."""
        self.inserted(upper)
        if entry in self._marked:
            self._marked.add(upper)

    def released(self, entry: E) -> None:
        """Make an entry a candidate."""
        self._line.enter(self._number[entry], entry)

    def held(self, entry: E) -> None:
        """Make an entry no candidate."""
        self._line.leave(self._number[entry])

    def victim(self) -> E | None:
        """Move the hand to the next candidate without a mark; amortised O(log n) an access."""
        if not len(self._line):
            return None
        number, entry = self._line.from_number(self._hand)
        while entry in self._marked:
            self._marked.remove(entry)
            number, entry = self._line.from_number(number + 1)
        newest = next(reversed(self._number.values()))
        self._hand = number + 1 if number < newest else 0
        self._line.leave(number)
        return entry

    def evicted(self, entry: E) -> None:
        """Forget the entry."""
        del self._number[entry]

    def __contains__(self, entry: object) -> bool:
        return self._number.get(entry, 0) in self._line  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self._line)

    def check_invariants(self) -> None:
        """Verify the line, and that all marked entries are resident; O(n)."""
        self._line.check_invariants()
        assert self._marked <= self._number.keys(), "an entry that is gone has a mark"
