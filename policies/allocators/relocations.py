"""What became of placed runs: those outgrown, moved, and slid together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Relocations:
    """Counts of a whole run of the engine.

    Attributes
    ----------
    num_grown, num_moved, num_lacking
        Outgrown reservations that grew in place, that moved, and those for which somebody had to
        give way.
    num_slid
        Runs that slid for the queue's head.
    moved_tokens, slid_tokens
        Tokens whose KV was copied for that.
    """

    num_grown: int = 0
    num_moved: int = 0
    num_lacking: int = 0
    num_slid: int = 0
    moved_tokens: int = 0
    slid_tokens: int = 0

    @property
    def copied_tokens(self) -> int:
        """Tokens whose KV was copied so far."""
        return self.moved_tokens + self.slid_tokens

    def move(self, num_tokens: int) -> None:
        """A run moved to another hole."""
        self.num_moved += 1
        self.moved_tokens += num_tokens

    def slide(self, num_tokens: int) -> None:
        """A run slid down."""
        self.num_slid += 1
        self.slid_tokens += num_tokens
