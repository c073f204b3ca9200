"""Finds sequences that preempt each other endlessly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class LoopGuard:
    """Counts preempting calls in which no sequence got further than ever before.

    A recomputing sequence is back where it was at most ``_recompute_calls`` calls later. Twice this
    number of such calls for each sequence is a loop.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        chunk = config.batching.long_prefill_token_threshold or config.max_num_batched_tokens
        self._recompute_calls = -(-config.max_model_len // chunk)
        self._num_barren = 0

    def victim(self, step: ScheduledStep, num_in_engine: int) -> Sequence | None:
        """Return the sequence to refuse if this step closes a loop: its last victim."""
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
