"""Run-length prefix cache: free queue and key index of vLLM's pool, stored in pieces.

A *piece* is a run of blocks of one segment of the prefix tree (``traces/trace/prefix.py``) that
were filled, are referenced and will be evicted together. Depths count blocks from the start of the
prompt. The free queue in the order in which blocks are taken:

    [ blank blocks: a count ] [ piece ][ piece ] ... [ piece ]
      no key, handed out first   least recently given up ... most recently; each tail first

Exact against the block pool for LRU with ``freed_blocks_without_key="front"``: keyed blocks come
back to the end, in the order tail to head of a request. So children are evicted before parents, and
the present part of a segment is always a leading part. Several copies of a block may exist (vLLM
does not de-duplicate); copies of one range share a ``copies`` list in order of insertion, the
first of them is hit.

Blocks taken are evicted lazily: ``take`` counts them, ``settle`` trims the pieces before the next
look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.leaping.cache.pieces import NOTHING_FOUND, Found, Piece, PieceQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.leaping.cache.pieces import Holding, Path


class SegmentCache(PieceQueue):
    """See the module docstring; a piece returns to the queue at its last release."""

    def __init__(self, num_blocks: int, segment_start: Sequence[int]) -> None:
        super().__init__(num_blocks)
        self._start = segment_start

    def end_of(self, segment: int) -> int:
        """Return the depth up to which a segment is present; 0 if it is absent."""
        present = self.segments.get(segment)
        return present[-1].high if present else 0

    # ---- look-up ---------------------------------------------------------------------------

    def find(self, path: Path, max_blocks: int) -> Found:
        """Return the longest leading run of at most ``max_blocks`` blocks; calls ``settle``."""
        if self._owed:
            self.settle()
        pieces: list[Piece] = []
        depth = num_free = 0
        segments = self.segments
        for segment, leaves in path:
            present = segments.get(segment)
            if present is None:
                break
            leaves = min(leaves, max_blocks)  # noqa: PLW2901
            for piece in present:
                if depth >= leaves:
                    break
                pieces.append(piece)
                upto = piece.high if piece.high < leaves else leaves
                if not piece.refs:
                    num_free += upto - depth
                depth = upto
            if depth < leaves or depth == max_blocks:
                break
        return Found(depth, num_free, pieces) if pieces else NOTHING_FOUND

    def hold(self, holding: Holding, found: Found) -> None:
        """Reference what was just found; free pieces leave the queue."""
        pieces = found.pieces
        if pieces and pieces[-1].high > found.num_blocks:
            self._split(pieces[-1], found.num_blocks)
        for piece in pieces:
            if piece.refs == 0:
                self._unlink(piece)
                self.num_cached -= piece.high - piece.low
                if piece.copies is not None and self._num_referenced(piece):
                    self.num_duplicates += piece.high - piece.low
            else:
                self.num_shared += piece.high - piece.low
            piece.refs += 1
        holding.pieces = list(pieces)  # NOTHING_FOUND is shared
        holding.ends = [piece.high for piece in pieces]
        holding.published = found.num_blocks
        holding.place = 0
        self._advance(holding)

    # ---- publishing and giving up ----------------------------------------------------------

    def publish(self, holding: Holding, upto: int, *, private: bool = False) -> None:
        """Set the keys of the holder's blocks up to depth ``upto``.

        The private end of a path is left out unless ``private``, because no other request can hit
        it.
        """
        if holding.published >= upto:
            return
        if self._owed:
            self.settle()
        while holding.published < upto:
            segment, leaves = holding.path[holding.place]
            if segment < 0 and not private:
                return
            present = self.segments.get(segment)
            end = leaves if leaves < upto else upto
            if present is None:
                present = self.segments[segment] = []
            elif holding.pieces and holding.pieces[-1] is present[-1]:
                piece = present[-1]
                if self._grows(piece):
                    piece.high = holding.ends[-1] = holding.published = end
                    if end == leaves:
                        self._advance(holding)
                    continue
            if present and present[-1].high > holding.published:
                self._publish_copy(holding, present, min(end, present[-1].high))
            else:
                self._publish_new(holding, segment, present, end)
            self._advance(holding)

    def release(self, holding: Holding, num_blocks: int, published: int) -> None:
        """Release ``num_blocks`` blocks, ``published`` of them with keys; last one first."""
        if not published and not holding.pieces:
            self.num_blank += num_blocks
            return
        self.publish(holding, published, private=True)
        self.num_blank += num_blocks - holding.published
        for piece, end in zip(reversed(holding.pieces), reversed(holding.ends), strict=True):
            if piece.high == end:
                self._unreference(piece)
                continue
            parts = [piece]
            while parts[-1].high < end:
                following = parts[-1].next_part
                assert following is not None, "a held piece lost a part"
                parts.append(following)
            for part in reversed(parts):
                self._unreference(part)
        holding.pieces, holding.ends = [], []
        holding.published = holding.place = 0

    def _unreference(self, piece: Piece) -> None:
        piece.refs -= 1
        count = piece.high - piece.low
        if piece.refs:
            self.num_shared -= count
            return
        if piece.copies is not None and self._num_referenced(piece):
            self.num_duplicates -= count
        piece.next_part = None
        self.num_cached += count
        self._enqueue(piece)

    def _grows(self, piece: Piece) -> bool:
        """Whether the holder of a segment's last piece may extend it: no other request holds it."""
        return piece.refs == 1 and piece.copies is None

    def _publish_new(self, holding: Holding, segment: int, present: list[Piece], end: int) -> None:
        piece = Piece(segment, holding.published, end, 1)
        present.append(piece)
        holding.pieces.append(piece)
        holding.ends.append(end)
        holding.published = end

    def _publish_copy(self, holding: Holding, present: list[Piece], end: int) -> None:
        """Insert copies behind the pieces that have the same keys already."""
        published = holding.published
        place = len(present) - 1
        while present[place].low > published:
            place -= 1
        while published < end:
            first = present[place]
            if first.low < published:
                first = self._split(first, published, place)
                place += 1
            if first.high > end:
                self._split(first, end, place)
            copy = Piece(first.segment, first.low, first.high, 1)
            if first.copies is None:
                first.copies = [first]
                shared = first.refs > 0
            else:
                shared = self._num_referenced(first) > 0
            if shared:
                self.num_duplicates += copy.high - copy.low
            copy.copies = first.copies
            first.copies.append(copy)
            holding.pieces.append(copy)
            holding.ends.append(copy.high)
            published = copy.high
            place += 1
        holding.published = published

    def _advance(self, holding: Holding) -> None:
        path = holding.path
        while holding.published >= path[holding.place][1] and holding.place + 1 < len(path):
            holding.place += 1

    def check_invariants(self, num_blocks: int, num_unkeyed: int) -> None:
        """Verify counts and links; ``num_unkeyed`` owned blocks have no key yet; O(pieces)."""
        self.settle()
        assert self._count_queued() == self.num_cached, "cached count is off"
        referenced = duplicates = shared = 0
        for segment, present in self.segments.items():
            depth = self._start[segment] if segment >= 0 else present[0].low
            for first in present:
                assert first.low == depth < first.high, f"{first} leaves a gap"
                depth = first.high
                copies = first.copies or [first]
                assert copies[0] is first, f"{first} is not the oldest copy"
                assert {(c.low, c.high) for c in copies} == {(first.low, first.high)}
                owned = sum(copy.refs > 0 for copy in copies)
                referenced += owned * (first.high - first.low)
                duplicates += max(owned - 1, 0) * (first.high - first.low)
                references = sum(copy.refs for copy in copies)
                shared += (references - owned) * (first.high - first.low)
        assert duplicates == self.num_duplicates, "duplicate count is off"
        assert shared == self.num_shared, "shared count is off"
        total = referenced + num_unkeyed + self.num_free
        assert total == num_blocks, f"{total} blocks accounted for, the pool has {num_blocks}"
