"""In-flight batching that never preempts (TensorRT-LLM, ``GUARANTEED_NO_EVICT``).

Source: TensorRT-LLM's ``GuaranteedNoEvictScheduler`` (batch_manager/capacityScheduler.cpp) and
``MicroBatchScheduler`` (microBatchScheduler.cpp), its default pair. Every running request may need
blocks up to its longest end. A new request is admitted when the free blocks beyond these cover its
own ``prompt + max_new_tokens``. The first request that does not fit ends the scan. Then the step is
filled up to ``max_num_tokens``: generation first, then contexts, oldest first. A chunk that does
not end its prompt is cut to whole blocks. Without chunks a prompt waits until it fits the budget.

Two differences are not modelled. With block reuse, the engine delays a prompt if another prompt is
computing its next block at that time; here the prompt is admitted and hits the blocks that are
there. Here a context takes its blocks chunk by chunk, not all with its first chunk; this changes
the number of free blocks shown, but not which requests are admitted.

``MAX_UTILIZATION`` is the engine's other policy. It admits while the next step fits, and pauses the
youngest request when it does not. ``mixed-running-first`` does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import Item
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.batching.promises import fits_to_its_end

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.batching.base import ScheduledStep, SchedulerState
    from kvsim.policies.sequence import Sequence


class NoEvict(MixedRunningFirst):
    """See the module docstring; keeps no state between calls."""

    name = "no-evict"

    def _serve_running(
        self, state: SchedulerState, step: ScheduledStep, cap: int, budget: int
    ) -> int:
        by_phase = sorted(
            state.running, key=lambda one: one.num_computed_tokens < one.prompt_tokens
        )
        for sequence in by_phase:
            tokens = self._cut(state, self._wanted(state, sequence), min(cap, budget))
            if tokens <= 0:
                continue
            has_room = state.allocator.grow(sequence, tokens)
            assert has_room, f"{sequence} has not the blocks that were promised to it"
            step.items.append(Item(sequence, tokens, sequence.num_computed_tokens))
            budget -= tokens
        return budget

    def _cut(self, state: SchedulerState, wanted: int, limit: int) -> int:
        """Return all ``wanted`` tokens, or as many whole blocks as the limit holds."""
        if wanted <= limit:
            return wanted
        return limit // state.config.block_size * state.config.block_size

    def _refusal(
        self, state: SchedulerState, sequence: Sequence, hit: Hit, tokens: int
    ) -> str | None:
        why = super()._refusal(state, sequence, hit, tokens)
        if why is None and not fits_to_its_end(state, sequence, hit):
            return "admission rule"
        return why
