"""Run-length prefix cache for orders by a sort key: pieces of ``SegmentCache``, another queue.

    segment 0   [ 3 hits ][ 1 hit ]        the last piece of a segment may be evicted, from its
                         +- segment 1      end, unless it has a child segment; so may any piece
                             [ 1 hit ]     with a second copy: above, only segment 1's

All blocks of a piece have had the same hits and were released together, last one first. So one
piece is one candidate, with the facts of its last block (see ``SEGMENT_SAFE`` in
:mod:`kvsim.policies.eviction`). The leaf rule is that of
:class:`~kvsim.policies.allocators.cached_blocks.CachedBlocks`. Taken blocks are evicted before
anything else changes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvsim.policies.eviction import EVICTION_KEYS, SEGMENT_SAFE
from kvsim.policies.eviction.keyed import KeyedOrder
from kvsim.sim.leaping.cache.segment_cache import SegmentCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.leaping.cache.pieces import Found, Holding, Piece


class KeyedSegments(SegmentCache):
    """See the module docstring; at most ``capacity`` free blocks stay cached.

    Invariant: the candidates of the order are the pieces that may be evicted.
    """

    def __init__(
        self,
        num_blocks: int,
        segment_start: Sequence[int],
        eviction: str,
        capacity: float | None,
    ) -> None:
        super().__init__(num_blocks, segment_start)
        self._order: KeyedOrder[Piece] = KeyedOrder(EVICTION_KEYS[eviction])
        self._most_in_a_row = SEGMENT_SAFE[eviction]
        self._most_cached = num_blocks if capacity is None else math.floor(capacity)
        self._parent: dict[int, tuple[int, int]] = {}  # of a segment: where it hangs
        self._num_below: dict[tuple[int, int], int] = {}  # segments that hang there
        self._now = 0

    def settle(self) -> None:
        """Evict the blocks taken; O(log pieces) for each piece, or each block of some orders."""
        while self._owed:
            piece = self._order.victim()
            assert piece is not None, "more blocks taken than were free"
            count = min(self._owed, piece.high - piece.low, self._most_in_a_row)
            self._owed -= int(count)
            self._evict(piece, piece.high - int(count))

    def hold(self, holding: Holding, found: Found) -> None:
        """Reference what was just found; this is an access, unless the request resumes."""
        super().hold(holding, found)
        if not holding.held_before:
            holding.held_before = True
            for piece in holding.pieces:
                piece.num_hits += 1

    def release(self, holding: Holding, num_blocks: int, published: int) -> None:
        """Release ``num_blocks`` blocks, ``published`` of them with keys; last one first."""
        self.settle()
        super().release(holding, num_blocks, published)
        excess = self.num_cached - self._most_cached
        if excess > 0:
            self.num_cached -= excess
            self.num_evicted += excess
            self.num_blank += excess
            self._owed = excess
            self.settle()

    # ---- candidates ------------------------------------------------------------------------

    def _may_go(self, piece: Piece) -> bool:
        if piece.refs:
            return False
        if piece.copies is not None:
            return True
        is_last = self.segments[piece.segment][-1] is piece
        return is_last and (piece.segment, piece.high) not in self._num_below

    def _consider(self, piece: Piece) -> None:
        """Report to the order which copies of a range may be evicted now."""
        for copy in piece.copies or (piece,):
            if self._may_go(copy):
                self._order.released(copy)
            else:
                self._order.held(copy)

    def _evict(self, piece: Piece, upto: int) -> None:
        """Evict the end of a piece that has just been chosen."""
        if upto == piece.low:
            self._drop(piece)
        elif piece.copies is None:
            piece.last_access += piece.high - upto
            piece.high = upto
            self._order.released(piece)
        else:
            self._drop(self._split(piece, upto))

    def _drop(self, piece: Piece) -> None:
        self._order.held(piece)
        copies = piece.copies
        super()._drop(piece)
        if copies is not None:
            self._consider(copies[0])
            return
        segment = piece.segment
        present = self.segments.get(segment)
        if present is None and segment in self._parent:
            place = self._parent.pop(segment)
            self._num_below[place] -= 1
            if not self._num_below[place]:
                del self._num_below[place]
            present = self.segments[place[0]]
        if present:
            self._consider(present[-1])

    # ---- pieces ----------------------------------------------------------------------------

    def _grows(self, piece: Piece) -> bool:
        is_leaf = (piece.segment, piece.high) not in self._num_below
        return is_leaf and piece.num_hits == 1 and super()._grows(piece)

    def _publish_new(self, holding: Holding, segment: int, present: list[Piece], end: int) -> None:
        if not present and holding.place:
            place = holding.path[holding.place - 1][0], holding.published
            self._parent[segment] = place
            self._num_below[place] = self._num_below.get(place, 0) + 1
        super()._publish_new(holding, segment, present, end)

    def _publish_copy(self, holding: Holding, present: list[Piece], end: int) -> None:
        num_before = len(holding.pieces)
        super()._publish_copy(holding, present, end)
        for copy in holding.pieces[num_before:]:
            self._consider(copy)

    def _split(self, piece: Piece, at: int, place: int | None = None) -> Piece:
        part = super()._split(piece, at, place)
        self._consider(piece)
        self._consider(part)
        return part

    def _enqueue(self, piece: Piece) -> None:
        piece.last_access = self._now + 1
        self._now += piece.high - piece.low
        self._consider(piece)

    def _enqueue_end(self, part: Piece, piece: Piece) -> None:
        part.last_access = piece.last_access
        piece.last_access += part.high - part.low

    def _unlink(self, piece: Piece) -> None:
        self._order.held(piece)

    def _count_queued(self) -> int:
        """Count the blocks of the free pieces; verify candidates and the parents of segments."""
        self._order.check_invariants()
        below: dict[tuple[int, int], int] = {}
        for segment, place in self._parent.items():
            assert segment in self.segments, f"segment {segment} hangs below, and is gone"
            assert self.end_of(place[0]) >= place[1], f"segment {segment} has lost its parent"
            below[place] = below.get(place, 0) + 1
        assert below == self._num_below, "segments are miscounted"
        pieces = [
            copy
            for present in self.segments.values()
            for first in present
            for copy in first.copies or (first,)
        ]
        for piece in pieces:
            assert (piece in self._order) == self._may_go(piece), (
                f"{piece} is wrongly (no) candidate"
            )
        assert sum(piece in self._order for piece in pieces) == len(self._order)
        return sum(piece.high - piece.low for piece in pieces if not piece.refs)
