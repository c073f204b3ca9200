"""First fit: the lowest hole that is large enough, no round-up (Knuth, TAOCP 1, 2.5)."""

from __future__ import annotations

from kvsim.policies.allocators.placement.free_runs import FreeRuns


class FirstFit(FreeRuns):
    """See the module docstring."""

    name = "first-fit"

    def _hole_for(self, num_tokens: int) -> int | None:
        holes = self._holes
        for address in self._starts:
            if holes[address] >= num_tokens:
                return address
        return None
