"""Caches of single blocks: each access hits, or evicts where the cache is full and inserts.

Furthest next use: Belady, "A study of replacement algorithms", IBM Systems Journal 1966.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_MORE: Final = 1 << 62
"""Next use of a block that is not used again."""


class Store(Protocol):
    """A cache of ``capacity`` blocks, at least 1."""

    def __contains__(self, block: int) -> bool:
        """Tell whether a block is resident."""
        ...

    def access(self, block: int) -> bool:
        """Touch a block; False where it was absent and had to be inserted."""
        ...


class Lru:
    """Evicts the least recently touched block."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queue: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._queue

    def access(self, block: int) -> bool:
        """Touch a block."""
        if block in self._queue:
            self._queue.move_to_end(block)
            return True
        if len(self._queue) >= self._capacity:
            self._queue.popitem(last=False)
        self._queue[block] = None
        return False


class Fifo:
    """Evicts the block inserted first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queue: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._queue

    def access(self, block: int) -> bool:
        """Touch a block."""
        if block in self._queue:
            return True
        if len(self._queue) >= self._capacity:
            self._queue.popitem(last=False)
        self._queue[block] = None
        return False


class Lfu:
    """Evicts the block with the fewest touches since its insertion, of these the stalest."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._key: dict[int, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._clock = 0

    def __contains__(self, block: int) -> bool:
        return block in self._key

    def access(self, block: int) -> bool:
        """Touch a block."""
        found = self._key.get(block)
        if found is None and len(self._key) >= self._capacity:
            self._evict()
        self._clock += 1
        key = (found[0] + 1 if found else 1, self._clock)
        self._key[block] = key
        heapq.heappush(self._heap, (*key, block))
        return found is not None

    def _evict(self) -> None:
        while True:  # entries of the heap that are no longer true are passed over
            count, clock, block = heapq.heappop(self._heap)
            if self._key.get(block) == (count, clock):
                del self._key[block]
                return


class Furthest:
    """Evicts the block whose next touch is furthest away; ``next_touch`` has one entry a touch."""

    def __init__(self, capacity: int, next_touch: Sequence[int]) -> None:
        self._capacity = capacity
        self._next_touch = iter(next_touch)
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __contains__(self, block: int) -> bool:
        return block in self._due

    def access(self, block: int) -> bool:
        """Touch a block; touches come in the order of ``next_touch``."""
        hit = block in self._due
        if not hit and len(self._due) >= self._capacity:
            self._evict()
        due = next(self._next_touch)
        self._due[block] = due
        heapq.heappush(self._heap, (-due, block))
        return hit

    def _evict(self) -> None:
        while True:
            due, block = heapq.heappop(self._heap)
            if self._due.get(block) == -due:
                del self._due[block]
                return
