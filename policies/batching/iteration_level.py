"""Whole prompts and decodes in one step, with seats but no token budget (Orca, OSDI 2022).

Source: Orca's Algorithm 1 and section 3.1 (read from the paper, there is no public code). Between
two iterations the scheduler goes through the requests in order of arrival: one that runs gets its
next iteration; one that waits enters if there is a seat (``max_bs`` there) and memory for its
reservation, and then its whole prompt is one iteration. The first one that does not fit ends the
walk. There are no chunks and no token budget: what a step holds is bounded by the seats alone.

So it is ``mixed-running-first`` with a budget that never binds; where memory is not reserved for
the whole life of a sequence (Orca always did) running ones may lack it and preempt as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.mixed_running_first import MixedRunningFirst

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.scheduler_config import SchedulerConfig


class IterationLevel(MixedRunningFirst):
    """See the module docstring; holds nothing between calls."""

    name = "iteration-level"

    @staticmethod
    def token_budget(config: SchedulerConfig) -> int:
        """Room for every seat's longest prompt."""
        return config.max_num_seqs * config.max_model_len

    def _chunk_cap(self, state: SchedulerState) -> int:
        """Prompts stay whole."""
        return state.config.max_model_len
