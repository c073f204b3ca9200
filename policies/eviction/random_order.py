"""Random: evict any entry that may go, with equal probability, by the run's seed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kvsim.policies.eviction.base import E, EvictionOrder

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext


class RandomOrder(EvictionOrder[E]):
    """Draws from a list of candidates; a map gives the index of each candidate in the list."""

    def __init__(self, context: PolicyContext) -> None:
        self._random = Random(f"eviction {context.seed}")
        self._candidates: list[E] = []
        self._place: dict[E, int] = {}

    def released(self, entry: E) -> None:
        """Add a candidate at the end of the list; O(1)."""
        if entry not in self._place:
            self._place[entry] = len(self._candidates)
            self._candidates.append(entry)

    def held(self, entry: E) -> None:
        """Remove a candidate; the last one takes its index; O(1)."""
        place = self._place.pop(entry, None)
        if place is None:
            return
        last = self._candidates.pop()
        if last is not entry:
            self._candidates[place] = last
            self._place[last] = place

    def victim(self) -> E | None:
        """Draw a candidate."""
        if not self._candidates:
            return None
        entry = self._candidates[self._random.randrange(len(self._candidates))]
        self.held(entry)
        return entry

    def __contains__(self, entry: object) -> bool:
        return entry in self._place

    def __len__(self) -> int:
        return len(self._candidates)

    def check_invariants(self) -> None:
        """Verify list and places; O(n)."""
        places = {entry: place for place, entry in enumerate(self._candidates)}
        assert places == self._place, "list and places differ"
