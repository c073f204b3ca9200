"""An eviction order given by a sort key: a heap with lazy deletion.

    _entries   A: (7,) #5    B: (2,) #3                     the valid numbers
    _heap      (2,) #3 B     (4,) #1 A, stale     (7,) #5 A  a changed entry is pushed once more

A heap item is valid if it has the number under which its entry was last pushed. So keys may fall as
well as rise (``mru``), and removing an entry costs O(1).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kvsim.policies.eviction.base import E, EvictionOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.eviction.base import SortKey

_SLACK = 64
"""The heap is rebuilt once it exceeds twice the number of candidates by this number."""


class KeyedOrder(EvictionOrder[E]):
    """Candidates by ``key``, smallest first; of equal keys the one pushed first.

    Invariant: each candidate has exactly one valid item in the heap. The item has the key of the
    entry's present facts.
    """

    def __init__(self, key: Callable[[E], SortKey]) -> None:
        self._key = key
        self._entries: dict[E, tuple[SortKey, int]] = {}
        self._heap: list[tuple[SortKey, int, E]] = []
        self._num_put = 0

    def released(self, entry: E) -> None:
        """Add a candidate, or update one after its facts have changed; O(log n)."""
        key = self._key(entry)
        known = self._entries.get(entry)
        if known is not None and known[0] == key:
            return
        self._num_put += 1
        self._entries[entry] = (key, self._num_put)
        heapq.heappush(self._heap, (key, self._num_put, entry))
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = [(*place, candidate) for candidate, place in self._entries.items()]
            heapq.heapify(self._heap)

    def held(self, entry: E) -> None:
        """Remove an entry if it is a candidate; O(1)."""
        self._entries.pop(entry, None)

    def victim(self) -> E | None:
        """Remove and return the candidate with the smallest key; ``None`` if there is none."""
        while self._heap:
            key, number, entry = heapq.heappop(self._heap)
            if self._entries.get(entry) == (key, number):
                del self._entries[entry]
                return entry
        return None

    def __contains__(self, entry: object) -> bool:
        return entry in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def check_invariants(self) -> None:
        """Verify that heap, candidates and present keys agree; O(n)."""
        valid = [item for item in self._heap if self._entries.get(item[2]) == item[:2]]
        assert len(valid) == len(self._entries), "a candidate is not in the heap exactly once"
        for entry, (key, _) in self._entries.items():
            assert key == self._key(entry), f"the key of {entry} is stale"
