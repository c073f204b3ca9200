"""First fit: the lowest hole that is large enough, no round-up (Knuth, TAOCP 1, 2.5)."""

from __future__ import annotations

from kvsim.policies.allocators.placement.free_runs import FreeRuns


class FirstFit:
    """See the module docstring; runs have exactly the size that was asked for."""

    name = "first-fit"

    def __init__(self, num_tokens: int) -> None:
        self._tiles = FreeRuns(num_tokens)

    @property
    def num_free(self) -> int:
        """Free tokens."""
        return self._tiles.num_free

    def rounded(self, num_tokens: int) -> int:
        """Exactly what was asked for."""
        assert num_tokens > 0, "a run holds at least one token"
        return num_tokens

    def alloc(self, num_tokens: int) -> int | None:
        """Take the front of the lowest hole that holds the run; O(holes)."""
        for address, length in self._tiles.holes():
            if length >= self.rounded(num_tokens):
                self._tiles.take(address, num_tokens)
                return address
        return None

    def free(self, address: int) -> None:
        """Give back a run."""
        self._tiles.give(address)

    def size_of(self, address: int) -> int:
        """Tokens of a run."""
        return self._tiles.runs[address]

    def largest_hole(self) -> int:
        """Tokens of the largest hole."""
        return self._tiles.largest()

    def check_invariants(self) -> None:
        """Verify runs and holes."""
        self._tiles.check_invariants()
