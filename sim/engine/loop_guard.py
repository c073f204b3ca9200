"""Finds sequences that put each other out for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class LoopGuard:
    """Counts preempting calls in which nobody got further than ever before.

    Recomputing gets a sequence back to where it was at most ``_recompute_calls`` calls later; that
    many such calls (twice, and for each sequence) are a loop.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        chunk = config.batching.long_prefill_token_threshold or config.max_num_batched_tokens
        self._recompute_calls = -(-config.max_model_len // chunk)
        self._num_barren = 0

    def victim(self, step: ScheduledStep, num_in_engine: int) -> Sequence | None:
        """Who has to go after this step, if it closes a loop: its last victim."""
        progress = False
        for item in step.items:
            sequence = item.sequence
            if sequence.num_computed_tokens > sequence.most_computed:
                sequence.most_computed = sequence.num_computed_tokens
                progress = True
        if progress:
            self._num_barren = 0
            return None
        self._num_barren += bool(step.preempted)
        if self._num_barren <= 2 * (num_in_engine + self._recompute_calls):
            return None
        self._num_barren = 0
        return step.preempted[-1].sequence
