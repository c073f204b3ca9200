"""Best fit: the smallest hole that is large enough, no round-up (Knuth, TAOCP 1, 2.5)."""

from __future__ import annotations

from kvsim.policies.allocators.placement.free_runs import FreeRuns


class BestFit(FreeRuns):
    """See the module docstring; of equal holes the lowest."""

    name = "best-fit"

    def _hole_for(self, num_tokens: int) -> int | None:
        fitting = [(length, a) for a, length in self._holes.items() if length >= num_tokens]
        return min(fitting)[1] if fitting else None
