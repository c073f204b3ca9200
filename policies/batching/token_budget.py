"""A budget of tokens for the whole batch; prefills interrupt decodes (TGI).

Read from the router of Text Generation Inference 2.2 (backends/v3/src/backend.rs
``batching_task``, queue.rs ``State::next_batch``), before it cached prefixes and cut prompts. A
request counts ``prompt + max_new_tokens`` tokens from its admission to its end:

- whole prompts enter in order of the queue while their sum is within ``max_batch_prefill_tokens``
  (here ``max_num_batched_tokens``), their prompts and answers fit ``max_batch_total_tokens`` beside
  the running batch, and the blocks to their longest end are free; the first that does not ends it;
- beside a running batch of B they enter only as a group of at least ``floor(B *
  waiting_served_ratio)``, unless ``max_waiting_tokens`` decode steps have passed since the last
  prefill;
- a prefill is a step of its own, then the new batch is joined to the running one ("concatenate")
  and a decode of all follows, whoever waits.

Nobody is ever preempted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import ScheduledStep
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.batching.promises import longest, unpromised_blocks

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState

UNWRITTEN = 1  # the KV of an answer's last token is never written


class TokenBudget(MixedRunningFirst):
    """See the module docstring; counts decode steps since the last prefill."""

    name = "token-budget"

    def __init__(self) -> None:
        self._waiting_tokens = 0
        self._decode_is_due = False

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """A prefill of those that may enter, else a decode of all."""
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
            assert not step.preempted, "memory was promised to everybody who runs"
            self._waiting_tokens += 1
            self._decode_is_due = False
        return step

    def _prefill(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Admit a group of whole prompts, or nobody."""
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
        """How many from the head of the queue fit together, and what keeps out the next."""
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
        """Tokens that the running batch leaves of the budget: it counts whole blocks."""
        config = state.config
        budget = config.batching.max_batch_total_tokens
        if budget is None:
            budget = config.usable_blocks * config.block_size
        for sequence in state.running:
            tokens = longest(state, sequence) - UNWRITTEN
            budget -= -(-tokens // config.block_size) * config.block_size
        return budget
