"""Static batching: a batch runs to its end before the next batch starts (FasterTransformer, HF).

Source: TensorRT-LLM's ``StaticBatchScheduler`` (capacityScheduler.cpp), FasterTransformer
(``ParallelGpt::forward`` and its ``finished_buf_``) and ``generate`` of Hugging Face transformers
(generation/utils.py, ``unfinished_sequences``). When nothing runs, whole prompts are admitted in
queue order while the batch has places and memory is free. The first prompt that does not fit ends
the admission. Nothing else is admitted until the last sequence of the batch has finished. A
finished sequence keeps its memory and its row, and every step still pays for the row.

With ``pad_to_longest`` (HF) each row is padded on the left to the longest prompt. The first step
pays for the longest prompt in each row. Every later step pays, in each row, for the context of the
longest one. The padding
occupies memory that the reservation never fills, and the states of the memory show it. Without
``pad_to_longest`` (FasterTransformer removes padding, and its attention skips finished rows) a
finished row costs as much as a row without context.

A token counts at the time at which it is sampled. A server that sends only complete outputs adds
the wait for the end of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import ScheduledStep
from kvsim.policies.batching.iteration_level import IterationLevel

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState


class Static(IterationLevel):
    """See the module docstring; remembers how long the rows of the batch are."""

    name = "static"

    def __init__(self) -> None:
        self._row_tokens = 0

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Continue the batch, or form the next one."""
        step = ScheduledStep(ends_together=True)
        cap, budget = self._chunk_cap(state), self.token_budget(state.config)
        if state.running:
            self._serve_running(state, step, cap, budget)
            if len(state.waiting):
                step.waits_for = "blocks" if step.preempted else "admission rule"
            self._row_tokens += 1
        else:
            self._admit_waiting(state, step, cap, budget)
            self._row_tokens = max((item.num_tokens for item in step.items), default=0)
        if state.config.batching.pad_to_longest:
            step.padded_to = self._row_tokens
        return step
