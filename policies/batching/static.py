"""A batch is formed, runs to its end, and only then the next one is (FasterTransformer, HF).

Read from TensorRT-LLM's ``StaticBatchScheduler`` (capacityScheduler.cpp), FasterTransformer
(``ParallelGpt::forward`` and its ``finished_buf_``) and Hugging Face transformers' ``generate``
(generation/utils.py, ``unfinished_sequences``). When nothing runs, whole prompts enter in order
of the queue while there are seats and memory; the first that does not fit ends the scan. Then
nobody enters until the last member has ended. A member that ended keeps its memory and its seat,
and every step still pays for its row.

``pad_to_longest`` (HF): rows are filled up to the longest one on the left, so the first step pays
for the longest prompt in each row, and every later one for its context. The filling itself lies in
memory that a reservation never fills and is shown as such. Without it (FasterTransformer removes
padding, and its attention skips ended rows) an ended row costs what a row without context costs.

Tokens, and with them the ends of answers, are counted when they are made; a server that sends whole
answers adds the wait for the batch's end.
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
        """Go on with the batch, or form the next one."""
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
