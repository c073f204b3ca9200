"""Counts of reservations that were renewed, moved or slid, and of blocks that were packed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Relocations:
    """Counts of a whole run of the engine.

    Attributes
    ----------
    num_grown, num_moved, num_lacking
        Reservations that were too small: those that grew in place, those that moved, and those
        that found no room, so that a victim was preempted.
    num_slid
        Runs that slid to make room for the head of the queue.
    num_packed
        Blocks freed because their kept tokens fitted into the holes of other blocks.
    moved_tokens, slid_tokens, packed_tokens
        Tokens whose KV was copied for that.
    """

    num_grown: int = 0
    num_moved: int = 0
    num_lacking: int = 0
    num_slid: int = 0
    moved_tokens: int = 0
    slid_tokens: int = 0
    num_packed: int = 0
    packed_tokens: int = 0

    @property
    def copied_tokens(self) -> int:
        """Number of tokens whose KV was copied so far."""
        return self.moved_tokens + self.slid_tokens + self.packed_tokens

    def move(self, num_tokens: int) -> None:
        """Count a run that moved to another hole."""
        self.num_moved += 1
        self.moved_tokens += num_tokens

    def slide(self, num_tokens: int) -> None:
        """Count a run that slid down."""
        self.num_slid += 1
        self.slid_tokens += num_tokens

    def pack(self, num_tokens: int) -> None:
        """Count a block that was emptied into the holes of others."""
        self.num_packed += 1
        self.packed_tokens += num_tokens
