"""Runs of cached blocks, what a look-up finds of them, and what a request holds."""

from __future__ import annotations

from typing import NamedTuple

Path = list[tuple[int, int]]
"""``(segment, depth at which the request leaves it)`` from the root on; the last is private."""


class Piece:
    """Blocks ``[low, high)`` of a segment; in the free queue while nobody references them.

    To orders other than LRU it tells the facts of its last block (``KeyedSegments``).
    """

    created = priority = 0  # not known of pieces, and not asked for
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
        """Its size, as the position: in blocks."""
        return self.high - self.low

    @property
    def past(self) -> int:
        """What stands before its last block."""
        return self.high - 1

    def __repr__(self) -> str:
        return f"<piece {self.segment}[{self.low}:{self.high}] refs={self.refs}>"


class Found(NamedTuple):
    """Result of a look-up: blocks hit, how many of them are free, and their pieces."""

    num_blocks: int
    num_free: int
    pieces: list[Piece]


NOTHING_FOUND = Found(0, 0, [])


class Holding:
    """What one request references: pieces with the depth up to which it holds each.

    ``held_before``: it was admitted before, and resumes (kept by ``BlockCache``).
    """

    __slots__ = ("ends", "held_before", "path", "pieces", "place", "published")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = 0
        self.published = 0
        self.held_before = False
        self.pieces: list[Piece] = []
        self.ends: list[int] = []
