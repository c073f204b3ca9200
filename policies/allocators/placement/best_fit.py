"""Best fit: the smallest hole that is large enough, no round-up (Knuth, TAOCP 1, 2.5)."""

from __future__ import annotations

from kvsim.policies.allocators.placement.free_runs import FreeRuns


class BestFit:
    """See the module docstring; of equal holes the lowest, and runs have exactly their size."""

    name = "best-fit"

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
        """Take the front of the smallest hole that holds the run; O(holes)."""
        wanted = self.rounded(num_tokens)
        fitting = [(length, a) for a, length in self._tiles.holes() if length >= wanted]
        if not fitting:
            return None
        _, address = min(fitting)
        self._tiles.take(address, num_tokens)
        return address

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
