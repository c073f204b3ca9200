"""Iteration-level batching: whole prompts and decodes in one step (Orca, OSDI 2022).

Source: Orca's Algorithm 1 and section 3.1. Orca has no public code. Between two iterations the
scheduler visits the requests in order of arrival. A running request gets its next iteration. A
waiting request is admitted if the batch has a place (``max_bs`` in the paper) and the memory for
its reservation is free; its whole prompt is then one iteration. The first request that does not
fit ends the visit. There are no chunks and no token budget: only ``max_num_seqs`` limits a step.

The code is ``mixed-running-first`` with a budget that is never reached. Orca reserves memory for
the whole life of a request. With another allocator a running request may find no memory; it is
then preempted as in ``mixed-running-first``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.mixed_running_first import MixedRunningFirst

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.scheduler_config import SchedulerConfig


class IterationLevel(MixedRunningFirst):
    """See the module docstring; keeps no state between calls."""

    name = "iteration-level"

    @staticmethod
    def token_budget(config: SchedulerConfig) -> int:
        """Return a budget that no step can exceed."""
        return config.max_num_seqs * config.max_model_len

    def _chunk_cap(self, state: SchedulerState) -> int:
        """Return no limit: prompts are not cut."""
        return state.config.max_model_len
