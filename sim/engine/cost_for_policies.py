"""The time of work that runs alone: the step cost as policies may use it.

Policies see :class:`~kvsim.policies.context.WorkCost`; this is its implementation in an engine.
Nothing runs at the same time: no batch shares the reading of weights, and no decode slows a prefill
down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_ps

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.step_cost import StepCost


class StepWorkCost:
    """Times of one sequence's work under the step cost of a run."""

    def __init__(self, cost: StepCost, config: SchedulerConfig) -> None:
        self._cost = cost
        self._windows = config.kept_sizes

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        """Return the time of one step that computes ``num_tokens`` prompt tokens after ``past``.

        The token budget does not cut it. A policy that needs chunks asks for each of them.
        """
        return self._cost.step([(num_tokens, past)], 0, 0)[0] if num_tokens else 0

    def decode_ps(self, num_tokens: int, context: int) -> int:
        """Return the time of ``num_tokens`` decode steps of one sequence.

        The first step has ``context`` tokens of context. O(pieces of the step cost);
        O(``num_tokens``) if a KV group does not keep everything.
        """
        if self._windows:
            return sum(
                self._cost.step((), 1, seen, [min(seen, window) for window in self._windows])[0]
                for seen in range(context, context + num_tokens)
            )
        total_ps = 0
        while num_tokens > 0:
            run = self._cost.decode_run(1, context)
            steps = num_tokens if run.num_steps is None else min(num_tokens, run.num_steps)
            total_ps += steps_ps(run.first_ps, run.slope_ps, steps)
            num_tokens -= steps
            context += steps
        return total_ps
