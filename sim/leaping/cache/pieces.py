"""Runs of cached blocks: results of a lookup, pieces that are present, and block counts.

A leaper keeps pieces by segment, and the free ones in the order of their eviction. Blank, cached
and shared blocks are only counted. Blocks are taken by count; which of them were evicted is decided
later.
"""

from __future__ import annotations

from typing import NamedTuple

Path = list[tuple[int, int]]
"""``(segment, depth at which the request leaves it)`` from the root on; the last is private."""


class Piece:
    """Blocks ``[low, high)`` of a segment; in the free queue while no request references them.

    To orders other than LRU it shows the facts of its last block (``KeyedSegments``).
    """

    created = priority = 0  # not known of pieces, and not used
    __slots__ = (
        "after",
        "before",
        "copies",
        "high",
        "last_access",
        "low",
        "next_part",
        "num_hits",
        "refs",
        "segment",
    )

    def __init__(self, segment: int, low: int, high: int, refs: int, num_hits: int = 1) -> None:
        self.segment = segment
        self.num_hits = num_hits
        self.last_access = 0
        self.low = low
        self.high = high
        self.refs = refs
        self.before: Piece | None = None
        self.after: Piece | None = None
        self.copies: list[Piece] | None = None
        self.next_part: Piece | None = None
        """The part split off this piece's end while it was referenced."""

    @property
    def num_tokens(self) -> int:
        """Size of the piece, in blocks (as its position)."""
        return self.high - self.low

    @property
    def past(self) -> int:
        """Blocks before its last block."""
        return self.high - 1

    def __repr__(self) -> str:
        return f"<piece {self.segment}[{self.low}:{self.high}] refs={self.refs}>"


class Found(NamedTuple):
    """Result of a lookup: blocks hit, how many of them are free, and their pieces."""

    num_blocks: int
    num_free: int
    pieces: list[Piece]


NOTHING_FOUND = Found(0, 0, [])


class Holding:
    """The references of one request: pieces, with the depth up to which it holds each.

    ``held_before``: it was admitted before, and resumes (set by ``BlockCache``).
    """

    __slots__ = ("ends", "held_before", "path", "pieces", "place", "published")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = 0
        self.published = 0
        self.held_before = False
        self.pieces: list[Piece] = []
        self.ends: list[int] = []


class BlockCounts:
    """Counts of a cache; ``_owed`` counts taken blocks whose eviction is decided later.

    Attributes
    ----------
    num_blank : int
        Free blocks without a key.
    num_cached : int
        Free blocks with a key, less those in ``_owed``.
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
        """Number of blocks that can be allocated."""
        return self.num_blank + self.num_cached

    def take(self, count: int) -> None:
        """Take blocks: blank ones first, then blocks to evict; O(1)."""
        if count <= self.num_blank:
            self.num_blank -= count
            return
        evicted = count - self.num_blank
        self.num_blank = 0
        self.num_cached -= evicted
        self.num_evicted += evicted
        self._owed += evicted


class PieceQueue(BlockCounts):
    """A ring of free pieces, least recently released first; pieces are cut, evicted, forgotten."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.segments: dict[int, list[Piece]] = {}
        self._queue = Piece(-1, 0, 0, 0)  # sentinel of the ring
        self._queue.before = self._queue.after = self._queue

    def settle(self) -> None:
        """Evict the blocks that were taken; amortised O(1) a piece."""
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
        """Return the number of referenced copies of this range."""
        number = 0
        for copy in piece.copies or (piece,):
            if copy.refs:
                number += 1
        return number

    def _split(self, piece: Piece, at: int, place: int | None = None) -> Piece:
        """Cut a range (all its copies) at depth ``at``; return the lower part of ``piece``.

        ``place``: index of the range among the present ones of its segment, if known.
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
        """Append a piece that no request references any longer."""
        last = self._queue.before
        assert last is not None
        piece.before, piece.after = last, self._queue
        last.after = self._queue.before = piece

    def _enqueue_end(self, part: Piece, piece: Piece) -> None:
        """Insert ``part``, the former end of a free piece, so that it is evicted first."""
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
        """Forget an evicted piece; the next copy takes the place of an older one."""
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
