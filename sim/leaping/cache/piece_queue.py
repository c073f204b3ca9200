"""Pieces present, by segment, and the free ones among them in the order of their eviction."""

from __future__ import annotations

from kvsim.sim.leaping.cache.block_counts import BlockCounts
from kvsim.sim.leaping.cache.pieces import Piece


class PieceQueue(BlockCounts):
    """A ring of free pieces, least recently given up first; pieces are cut, evicted, forgotten."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.segments: dict[int, list[Piece]] = {}
        self._queue = Piece(-1, 0, 0, 0)  # sentinel of the ring
        self._queue.before = self._queue.after = self._queue

    def settle(self) -> None:
        """Evict the blocks owed; amortised O(1) a piece."""
        owed, queue = self._owed, self._queue
        while owed:
            piece = queue.after
            assert piece is not None
            assert piece is not queue, "more blocks taken than were free"
            count = piece.high - piece.low
            if count > owed:
                if piece.copies is None:
                    piece.high -= owed
                else:
                    self._unlink(piece_end := self._split(piece, piece.high - owed))
                    self._drop(piece_end)
                break
            owed -= count
            self._unlink(piece)
            self._drop(piece)
        self._owed = 0

    @staticmethod
    def _num_referenced(piece: Piece) -> int:
        """Copies of this range that somebody references."""
        number = 0
        for copy in piece.copies or (piece,):
            if copy.refs:
                number += 1
        return number

    def _split(self, piece: Piece, at: int, place: int | None = None) -> Piece:
        """Cut a range (all its copies) at depth ``at``; return the lower part of ``piece``.

        ``place``: where the range stands among those present of its segment, if known.
        """
        lower: list[Piece] = []
        result = piece
        for copy in piece.copies or (piece,):
            part = Piece(copy.segment, at, copy.high, copy.refs, copy.num_hits)
            copy.high = at
            if copy.refs:
                part.next_part, copy.next_part = copy.next_part, part
            else:
                self._enqueue_end(part, copy)
            lower.append(part)
            if copy is piece:
                result = part
        if piece.copies is not None:
            for part in lower:
                part.copies = lower
        present = self.segments[piece.segment]
        if place is None:
            place = present.index(piece.copies[0] if piece.copies else piece)
        present.insert(place + 1, lower[0])
        return result

    def _enqueue(self, piece: Piece) -> None:
        """Nobody references a piece any longer: it goes last."""
        last = self._queue.before
        assert last is not None
        piece.before, piece.after = last, self._queue
        last.after = self._queue.before = piece

    def _enqueue_end(self, part: Piece, piece: Piece) -> None:
        """``part`` was the end of a free piece: it is evicted first."""
        before = piece.before
        assert before is not None
        part.before, part.after = before, piece
        before.after = piece.before = part

    def _unlink(self, piece: Piece) -> None:
        """Take a piece out of the queue."""
        before, after = piece.before, piece.after
        assert before is not None
        assert after is not None
        before.after, after.before = after, before
        piece.before = piece.after = None

    def _drop(self, piece: Piece) -> None:
        """Forget an evicted piece; an older copy's place goes to the next one."""
        present = self.segments[piece.segment]
        if piece.copies is None:
            assert present[-1] is piece, f"{piece} is evicted before its children"
            present.pop()
            if not present:
                del self.segments[piece.segment]
            return
        copies = piece.copies
        if copies[0] is piece:
            present[present.index(piece)] = copies[1]
        copies.remove(piece)
        if len(copies) == 1:
            copies[0].copies = None
        piece.copies = None

    def _count_queued(self) -> int:
        """Blocks of the free pieces; verifies their queue."""
        queued, piece = 0, self._queue.after
        while piece is not self._queue:
            assert piece is not None
            assert piece.refs == 0, f"{piece} is queued but referenced"
            assert piece.after is not None
            assert piece.after.before is piece, "the ring of free pieces is broken"
            queued += piece.high - piece.low
            piece = piece.after
        return queued
