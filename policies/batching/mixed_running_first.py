"""Running sequences first, then waiting ones; prefill and decode in one step (vLLM v1).

Mirrors ``Scheduler.schedule`` of vLLM 0.32.0 (v1/core/sched/scheduler.py). There is no prefill
phase and no decode phase. Each sequence in turn gets all its tokens that are known but not
computed, until the token budget is used up. Running sequences ignore the watermark and the reserve.
If blocks are missing, they preempt. A step that preempted admits no request. Only the head of the
queue is tried.

vLLM v1 has neither swapping nor groups. Here swapped sequences come before the queue. A group takes
one place of ``max_num_seqs`` and one token of the budget for each of its sequences; otherwise it
waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.base import Admission, Item, ScheduledStep
from kvsim.policies.batching.predicted_room import lacks_predicted_room
from kvsim.policies.batching.swapping import preempt, swap_in_all

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class MixedRunningFirst:
    """See the module docstring; keeps no state between calls."""

    name = "mixed-running-first"

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Return the result of one scheduling call."""
        step = ScheduledStep()
        cap = self._chunk_cap(state)
        budget = self._serve_running(state, step, cap, self.token_budget(state.config))
        if step.preempted:
            step.waits_for = "blocks"
            return step
        if state.swapped:
            budget = swap_in_all(state, step, lambda s: min(self._wanted(state, s), cap), budget)
        if not state.swapped:
            self._admit_waiting(state, step, cap, budget)
        return step

    @staticmethod
    def token_budget(config: SchedulerConfig) -> int:
        """Return the most tokens of a step."""
        return config.max_num_batched_tokens

    def _chunk_cap(self, state: SchedulerState) -> int:
        """Return the most tokens of one sequence in this step (long-prefill threshold)."""
        rules = state.config.batching
        alone = len(state.running) + len(state.waiting) == 1
        exempt = rules.lone_request_exempt_from_threshold and alone
        if rules.long_prefill_token_threshold > 0 and not exempt:
            return rules.long_prefill_token_threshold
        return state.config.max_num_batched_tokens

    def _serve_running(
        self, state: SchedulerState, step: ScheduledStep, cap: int, budget: int
    ) -> int:
        running = state.running
        any_victim_moves = state.config.preemption.victim_moves_position == "always"
        position = 0
        while position < len(running) and budget > 0:
            sequence = running[position]
            tokens = self._cut(state, self._wanted(state, sequence), min(cap, budget))
            if tokens <= 0 or sequence.num_scheduled(tokens) > budget:
                position += 1
                continue
            while not self._grow(state, sequence, tokens):
                victim = state.victim(running, state)
                earlier, returned = self._preempt(state, step, victim)
                budget += returned
                if earlier < position and (any_victim_moves or returned > 0):
                    position -= 1
                if victim is sequence:
                    return budget
            step.items.append(Item(sequence, tokens, sequence.num_computed_tokens))
            budget -= sequence.num_scheduled(tokens)
            position += 1
        return budget

    def _cut(self, state: SchedulerState, wanted: int, limit: int) -> int:
        """Return the tokens of a chunk for a sequence that could use ``wanted``."""
        return min(wanted, limit)

    def _grow(self, state: SchedulerState, sequence: Sequence, tokens: int) -> bool:
        """Take memory for a running sequence; return False if memory is missing."""
        return state.allocator.grow(sequence, tokens)

    def _wanted(self, state: SchedulerState, sequence: Sequence) -> int:
        """Return the tokens that a running sequence can use: 0 while its last one is in flight."""
        if sequence.num_output_placeholders and (
            sequence.num_tokens + sequence.num_output_placeholders
            >= sequence.prompt_tokens + sequence.max_tokens
        ):
            return 0
        config = state.config
        room = config.max_model_len - sequence.num_computed_tokens
        if config.batching.keep_room_for_last_token:
            room -= 1
        return min(
            sequence.num_tokens + sequence.num_output_placeholders - sequence.num_computed_tokens,
            room,
        )

    def _preempt(
        self, state: SchedulerState, step: ScheduledStep, victim: Sequence
    ) -> tuple[int, int]:
        """Preempt a sequence; return its index in the running list and its tokens of this step."""
        place = state.running.index(victim)
        del state.running[place]
        returned = 0
        for number, item in enumerate(step.items):
            if item.sequence is victim:
                returned = victim.num_scheduled(item.num_tokens)
                del step.items[number]
                break
        if not preempt(state, step, victim):
            self._requeue(state, victim)
        return place, returned

    def _requeue(self, state: SchedulerState, victim: Sequence) -> None:
        """Put a preempted sequence back into the queue."""
        state.waiting.push_preempted(victim)

    def _admit_waiting(
        self, state: SchedulerState, step: ScheduledStep, cap: int, budget: int
    ) -> None:
        config, allocator = state.config, state.allocator
        places = config.max_num_seqs - state.num_running_seqs
        while len(state.waiting):
            if state.waiting.head().width > places:
                step.waits_for = "max_num_seqs"
                return
            if budget <= 0:
                step.waits_for = "token_budget"
                return
            sequence = state.waiting.head()
            hit = allocator.find_hit(sequence)
            wanted = sequence.num_tokens - hit.tokens
            if min(wanted, cap) > budget and not config.enable_chunked_prefill:
                step.waits_for = "token_budget"
                return
            tokens = self._cut(state, wanted, min(cap, budget))
            if tokens == 0:
                step.waits_for = "token_budget"
                return
            step.waits_for = self._refusal(state, sequence, hit, tokens)
            if step.waits_for is not None:
                return
            self._admit(state, step, hit, tokens)
            budget -= tokens
            places -= sequence.width

    def _refusal(
        self, state: SchedulerState, sequence: Sequence, hit: Hit, tokens: int
    ) -> str | None:
        """Return why memory does not admit the head of the queue; ``None`` if it does."""
        refusal = state.allocator.refusal(sequence, hit, tokens, idle=not state.running)
        if refusal is None and lacks_predicted_room(state, sequence):
            return "admission rule"
        return refusal

    def _admit(self, state: SchedulerState, step: ScheduledStep, hit: Hit, tokens: int) -> None:
        """Admit the head of the queue with its hit and ``tokens`` to compute."""
        sequence = state.waiting.pop()
        state.allocator.admit(sequence, hit, tokens)
        state.running.append(sequence)
        step.admitted.append(Admission(sequence, hit.tokens, sequence.num_preemptions > 0))
        step.items.append(Item(sequence, tokens, hit.tokens))
