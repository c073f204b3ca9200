"""How many blocks of a leaper's cache are blank, cached, shared; blocks are taken by count."""

from __future__ import annotations


class BlockCounts:
    """Counts of a cache; who is evicted for the blocks taken is settled later, from ``_owed``.

    Attributes
    ----------
    num_blank : int
        Free blocks without a key.
    num_cached : int
        Free blocks with one (evictions still owed deducted).
    num_duplicates : int
        Referenced blocks beyond the first under their key.
    num_shared : int
        References beyond the first of each block.
    num_evicted : int
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blank = num_blocks
        self.num_cached = 0
        self.num_evicted = 0
        self.num_duplicates = 0
        self.num_shared = 0
        self._owed = 0

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out."""
        return self.num_blank + self.num_cached

    def take(self, count: int) -> None:
        """Hand out blocks: blank ones first, then those to be evicted; O(1)."""
        if count <= self.num_blank:
            self.num_blank -= count
            return
        evicted = count - self.num_blank
        self.num_blank = 0
        self.num_cached -= evicted
        self.num_evicted += evicted
        self._owed += evicted
