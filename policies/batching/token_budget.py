"""A budget of tokens for the whole batch; prefills interrupt decodes (TGI).

Source: the router of Text Generation Inference 2.2 (backends/v3/src/backend.rs ``batching_task``,
queue.rs ``State::next_batch``), before it cached prefixes and cut prompts. A request counts
``prompt + max_new_tokens`` tokens from its admission to its end:

* whole prompts are admitted in queue order under three conditions: their sum is within
  ``max_batch_prefill_tokens`` (here ``max_num_batched_tokens``); their prompts and outputs fit
  ``max_batch_total_tokens`` together with the running batch; the blocks up to their longest end
  are free. The first prompt that does not fit ends the admission;
* while a batch of B requests runs, only a group of at least ``floor(B * waiting_served_ratio)``
  requests is admitted, unless ``max_waiting_tokens`` decode steps have passed since the last
  prefill;
* a prefill is a separate step. Then the new batch joins the running one ("concatenate"), and a
  decode of all follows, even if requests wait.

No request is ever preempted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import ScheduledStep
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.batching.promises import longest, unpromised_blocks

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState

UNWRITTEN = 1  # the KV of the last output token is never written


class TokenBudget(MixedRunningFirst):
    """See the module docstring; counts decode steps since the last prefill."""

    name = "token-budget"

    def __init__(self) -> None:
        self._waiting_tokens = 0
        self._decode_is_due = False

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Return a prefill of the admitted requests, or else a decode of all running ones."""
        step = ScheduledStep()
        joins = bool(state.running)
        if joins and self._decode_is_due:
            step.waits_for = "admission rule" if len(state.waiting) else None
        else:
            self._prefill(state, step)
        if step.items:
            self._waiting_tokens = 1
            self._decode_is_due = joins
        else:
            self._serve_running(state, step, 1, len(state.running))
            assert not step.preempted, "memory was promised to all running sequences"
            self._waiting_tokens += 1
            self._decode_is_due = False
        return step

    def _prefill(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Admit a group of whole prompts, or none."""
        if not len(state.waiting):
            return
        rules, allocator = state.config.batching, state.allocator
        group, why = self._group(state)
        if state.running and self._waiting_tokens < rules.max_waiting_tokens:
            fewest = int(len(state.running) * rules.waiting_served_ratio)
            if group < fewest:
                group, why = 0, "admission rule"
        for _ in range(group):
            hit = allocator.find_hit(state.waiting.head())
            self._admit(state, step, hit, state.waiting.head().num_tokens - hit.tokens)
        step.waits_for = why

    def _group(self, state: SchedulerState) -> tuple[int, str | None]:
        """Return how many requests from the head of the queue fit, and why the next does not."""
        config, allocator = state.config, state.allocator
        block_size = config.block_size
        prefill = -(-config.max_num_batched_tokens // block_size) * block_size
        free_blocks = unpromised_blocks(state, UNWRITTEN)
        total = self._total_tokens(state)
        places = config.max_num_seqs - len(state.running)
        group = 0
        for sequence in state.waiting:
            hit = allocator.find_hit(sequence)
            tokens = longest(state, sequence)
            free_blocks -= allocator.num_wanted(sequence, hit, tokens - UNWRITTEN)
            prefill -= sequence.num_tokens
            total -= tokens
            if group == places:
                return group, "max_num_seqs"
            if prefill < 0:
                return group, "token_budget"
            if free_blocks < 0:
                return group, "blocks"
            if total < 0:
                return group, "admission rule"
            group += 1
        return group, None

    def _total_tokens(self, state: SchedulerState) -> int:
        """Return the tokens that the running batch leaves of the budget; it counts whole blocks."""
        config = state.config
        budget = config.batching.max_batch_total_tokens
        if budget is None:
            budget = config.usable_blocks * config.block_size
        for sequence in state.running:
            tokens = longest(state, sequence) - UNWRITTEN
            budget -= -(-tokens // config.block_size) * config.block_size
        return budget
