"""A step holds either prefills or decodes, and prefills go first (vLLM's engine v0).

Source: vLLM 0.8.5 (core/scheduler.py ``_schedule_default``, core/block_manager.py) with chunked
prefill off. If at least one prompt can be admitted, the step holds all whole prompts that can.
Otherwise every running sequence decodes.

Admission looks at the head of the queue only, while the batch has places and
``max_num_batched_tokens`` allows. The blocks of the whole prompt, *without deducting cache hits*,
must leave ``watermark`` of all blocks free, even if nothing runs. A prompt that does not fit in the
empty pool is dropped. A group takes a place in the batch for each of its sequences from the start;
its prompt is computed once.

A decode needs a free block for each sequence, even if the last block of the sequence has room (the
engine counts the block that it touches). Without a free block a victim is preempted. It returns to
the front of the queue, or its blocks are swapped out. Swapped sequences return after a decode that
preempted nothing, under the same watermark. While a sequence is on the host no prompt is admitted.

:class:`~kvsim.policies.batching.new_token_ratio.NewTokenRatio` uses the same structure with
SGLang's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import Dropped, ScheduledStep
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.batching.swapping import swap_in_all

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence


class PrefillFirst(MixedRunningFirst):
    """See the module docstring; keeps no state between calls."""

    name = "prefill-first"

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Return a prefill of the admitted requests, or else a decode of all running ones."""
        step = ScheduledStep()
        if not state.swapped:
            self._prefill(state, step)
        if not step.items:
            self._decode(state, step)
            if step.preempted:
                step.waits_for = "blocks"
            elif state.swapped:
                self._swap_in(state, step)
        return step

    def _swap_in(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Swap sequences in, which then decode; such a step admits no new request."""
        budget = state.config.max_num_batched_tokens - step.num_tokens
        swap_in_all(state, step, lambda _: 1, budget, idle_too=True)
        if step.waits_for is None and len(state.waiting):
            step.waits_for = "admission rule"

    def _prefill(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Admit whole prompts."""
        budget = state.config.max_num_batched_tokens
        places = state.config.max_num_seqs - state.num_running_seqs
        while len(state.waiting):
            if self._drop_head(state, step):
                continue
            if state.waiting.head().width > places:
                step.waits_for = "max_num_seqs"
                return
            sequence = state.waiting.head()
            hit = state.allocator.find_hit(sequence)
            tokens = sequence.num_tokens - hit.tokens
            if tokens > budget:
                step.waits_for = "token_budget"
                return
            step.waits_for = self._refusal(state, sequence, hit, tokens)
            if step.waits_for is not None:
                return
            self._admit(state, step, hit, tokens)
            budget -= tokens
            places -= sequence.width
        step.waits_for = None

    def _decode(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Give one token to every running sequence, in order of admission."""
        self._serve_running(state, step, 1, state.config.max_num_seqs)

    def _refusal(
        self, state: SchedulerState, sequence: Sequence, hit: Hit, tokens: int
    ) -> str | None:
        spare = state.allocator.num_spare
        wanted = self._blocks_of(state, sequence)
        if wanted > spare:
            return "blocks"
        return "admission rule" if spare - wanted < self._kept_free(state) else None

    def _grow(self, state: SchedulerState, sequence: Sequence, tokens: int) -> bool:
        return state.allocator.num_spare >= sequence.width and state.allocator.grow(
            sequence, tokens
        )

    def _drop_head(self, state: SchedulerState, step: ScheduledStep) -> bool:
        """Drop the head of the queue if it can never be admitted."""
        sequence = state.waiting.head()
        wanted, usable = self._blocks_of(state, sequence), state.config.usable_blocks
        kept = self._kept_free(state)
        if usable - wanted >= kept:
            return False
        reason = f"needs {wanted:,} blocks, but the watermark keeps {kept:,} of {usable:,} free"
        step.dropped.append(Dropped(state.waiting.pop(), reason))
        return True

    def _blocks_of(self, state: SchedulerState, sequence: Sequence) -> int:
        """Return the blocks of all known tokens."""
        return -(-sequence.num_tokens // state.config.block_size)

    def _kept_free(self, state: SchedulerState) -> int:
        """Return the blocks that no prompt may take."""
        return int(state.config.batching.watermark * state.config.num_gpu_blocks)
