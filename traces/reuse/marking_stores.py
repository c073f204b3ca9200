"""Queues that mark what is hit instead of moving it: SIEVE and S3-FIFO.

Sources: SIEVE - Zhang et al., NSDI 2024, algorithm 1. S3-FIFO - Yang et al., SOSP 2023, algorithm
1: a small queue of a tenth of the capacity, main queue and ghost of the rest; here an eviction
ends as soon as one block has left.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final


class Sieve:
    """A queue with a mark for each block; a hand moves from old to new, clearing marks.

    Hits set the mark and move nothing; the first block without a mark that the hand meets goes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._marked: dict[int, bool] = {}
        self._newer: dict[int, int | None] = {}
        self._older: dict[int, int | None] = {}
        self._newest: int | None = None
        self._oldest: int | None = None
        self._hand: int | None = None

    def __contains__(self, block: int) -> bool:
        return block in self._marked

    def access(self, block: int) -> bool:
        """Touch a block."""
        if block in self._marked:
            self._marked[block] = True
            return True
        if len(self._marked) >= self._capacity:
            self._evict()
        self._marked[block] = False
        self._older[block], self._newer[block] = self._newest, None
        if self._newest is None:
            self._oldest = block
        else:
            self._newer[self._newest] = block
        self._newest = block
        return False

    def _evict(self) -> None:
        at = self._hand if self._hand is not None else self._oldest
        assert at is not None, "a full cache has an oldest block"
        while self._marked[at]:
            self._marked[at] = False
            newer = self._newer[at]
            at = newer if newer is not None else self._oldest
            assert at is not None, "a full cache has an oldest block"
        older, newer = self._older.pop(at), self._newer.pop(at)
        del self._marked[at]
        self._hand = newer
        if older is None:
            self._oldest = newer
        else:
            self._newer[older] = newer
        if newer is None:
            self._newest = older
        else:
            self._older[newer] = older


class S3Fifo:
    """A small queue that lets go of what is used once, a main queue, and a ghost of names.

    Blocks start in the small queue, or in the main one where the ghost knows them. The small
    queue gives up its oldest block, which goes to the main queue where it was hit more than
    once, and else leaves its name to the ghost. The main queue puts blocks with hits back.
    """

    _MOST_HITS: Final = 3

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._small_capacity = max(1, capacity // 10)
        self._main_capacity = capacity - self._small_capacity
        self._small: deque[int] = deque()
        self._main: deque[int] = deque()
        self._ghost: OrderedDict[int, None] = OrderedDict()
        self._hits: dict[int, int] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._hits

    def access(self, block: int) -> bool:
        """Touch a block."""
        if block in self._hits:
            self._hits[block] = min(self._hits[block] + 1, self._MOST_HITS)
            return True
        while len(self._hits) >= self._capacity:
            self._evict()
        if block in self._ghost:
            del self._ghost[block]
            self._main.append(block)
        else:
            self._small.append(block)
        self._hits[block] = 0
        return False

    def _evict(self) -> None:
        if len(self._small) < self._small_capacity:
            self._evict_main()
            return
        while self._small:
            block = self._small.popleft()
            if self._hits[block] <= 1:
                del self._hits[block]
                self._remember(block)
                return
            self._main.append(block)
            if len(self._main) > self._main_capacity:
                self._evict_main()
                return

    def _evict_main(self) -> None:
        while self._main:
            block = self._main.popleft()
            if not self._hits[block]:
                del self._hits[block]
                return
            self._hits[block] -= 1
            self._main.append(block)

    def _remember(self, block: int) -> None:
        self._ghost[block] = None
        if len(self._ghost) > self._main_capacity:
            self._ghost.popitem(last=False)
