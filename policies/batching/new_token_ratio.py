"""Prefill first, with an estimate of the tokens that running requests will still take (SGLang).

Source: SGLang 0.5.23 (managers/scheduler.py ``get_next_batch_to_run``, schedule_policy.py
``PrefillAdder``, mem_cache/prefill_budget.py, schedule_batch.py ``retract_decode``), without
overlap schedule, priorities or mixed chunks. All amounts below are tokens.

Prefill: a prompt that was cut gets its next chunk first. Then the head of the queue is admitted
while

    extend + new + page < spare - taken - sum over running of ratio * left

* extend: prompt tokens beyond the hit;
* new: output tokens that the request may still have, at most ``clip_max_new_tokens``;
* left: the same for a running request;
* page: the block size;
* taken: what this step has admitted (extend in whole pages + page + new).

The prompt is cut, in whole pages, to the rest of the chunk budget ``chunked_prefill_size`` (here
``max_num_batched_tokens``). ``max_prefill_tokens`` also limits the step. At most one prompt is cut
at a time. While a prompt is cut, every step is a prefill.

If memory or ``max_num_seqs`` refuses a request, the batch counts as full. No request is tried until
a running sequence leaves.

Decode: each sequence needs a block for one token. If blocks are missing, sequences are retracted,
at least one, until the rest fits. The sequence with the fewest output tokens goes first; of equal
ones the one with the longest prompt; of these the last. Retracted sequences go to the back of the
queue. Then ratio = (output tokens of the rest + 20 for each sequence) / (their allowed output
tokens + 1), at most 1. A decode step without retraction lowers the ratio, down to a minimum. An
idle engine resets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.policies.batching.base import Item
from kvsim.policies.batching.prefill_first import PrefillFirst

if TYPE_CHECKING:
    from kvsim.policies.batching.base import ScheduledStep, SchedulerState
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

RULE: Final = "admission rule"
FULL: Final = ("max_num_seqs", "blocks", RULE)
"""Reasons after which no request is tried until a running sequence leaves."""


@dataclass(slots=True)
class Room:
    """Tokens that a prefill step has left: of memory, of the chunk, of the step."""

    memory: float
    chunk: int
    prefill: int


class NewTokenRatio(PrefillFirst):
    """See the module docstring.

    Keeps the ratio, why the batch counts as full, how many sequences ran after the last call, and
    the prompt that was cut.
    """

    def __init__(self, context: PolicyContext) -> None:
        config, rules = context.config, context.config.batching
        self._config = config
        self._rules = rules
        self._page = config.block_size
        self._pool_tokens = config.usable_blocks * config.block_size
        self._highest = min(rules.new_token_ratio, 1.0)
        self._lowest = min(self._highest * rules.min_new_token_ratio_factor, 1.0)
        self._decay = (self._highest - self._lowest) / rules.new_token_ratio_decay_steps
        self.ratio = self._highest
        self._full: str | None = None
        self._num_running = 0
        self._partial: Sequence | None = None

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Return a prefill of the admitted requests, or else a decode of all running ones."""
        if self._partial is not None or len(state.running) < self._num_running or not state.running:
            self._full = None
        if not state.running and not len(state.waiting):
            self.ratio = self._highest
        step = super().compose(state)
        self._num_running = len(state.running)
        return step

    # ---- prefill ---------------------------------------------------------------------------

    def _prefill(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Continue the prompt that was cut, then admit from the head of the queue."""
        cut, self._partial = self._partial, None
        if cut is not None and cut.aborted:
            cut = None
        room = self._room(state, cut)
        if cut is not None:
            self._go_on(state, step, cut, room)
        while len(state.waiting):
            step.waits_for = self._full or self._try_head(state, step, room)
            if step.waits_for is not None:
                break
            if room.memory <= 0:
                self._full = RULE
        if step.waits_for in FULL and state.running:
            self._full = step.waits_for

    def _room(self, state: SchedulerState, cut: Sequence | None) -> Room:
        """Return what a step may take before any admission."""
        expected = sum(self._left(one) * self.ratio for one in state.running if one is not cut)
        memory = state.allocator.num_spare * self._page - expected
        return Room(memory, self._config.max_num_batched_tokens, self._rules.max_prefill_tokens)

    def _go_on(self, state: SchedulerState, step: ScheduledStep, cut: Sequence, room: Room) -> None:
        """Give the prompt that was cut its next chunk; its memory was reserved at admission."""
        rest = cut.num_tokens - cut.num_computed_tokens
        most = min(room.chunk, int(room.memory))
        tokens = min(rest, most if most > 0 else room.chunk)
        has_room = state.allocator.grow(cut, tokens)
        assert has_room, f"{cut} has no memory for its next chunk"
        step.items.append(Item(cut, tokens, cut.num_computed_tokens))
        self._charge(cut, tokens, rest, room)

    def _try_head(self, state: SchedulerState, step: ScheduledStep, room: Room) -> str | None:
        """Admit the head of the queue, or return why it is not admitted."""
        allocator = state.allocator
        sequence = state.waiting.head()
        hit = allocator.find_hit(sequence)
        extend = sequence.num_tokens - hit.tokens
        if room.chunk <= 0 or room.prefill <= 0:
            return "token_budget"
        if len(state.running) >= self._config.max_num_seqs:
            return "max_num_seqs"
        pinned = allocator.num_wanted(sequence, hit, hit.tokens) * self._page
        if extend + self._left(sequence) + self._page >= room.memory - pinned:
            return "blocks" if extend > allocator.num_spare * self._page - pinned else RULE
        whole = self._in_pages(extend) <= room.chunk
        tokens = extend if whole else room.chunk // self._page * self._page
        if tokens == 0:
            return "token_budget"
        self._admit(state, step, hit, tokens)
        room.memory -= pinned
        self._charge(sequence, tokens, extend, room)
        return None

    def _charge(self, sequence: Sequence, tokens: int, extend: int, room: Room) -> None:
        """Subtract ``tokens`` of a prompt's ``extend`` missing tokens from the room of the step."""
        self._partial = sequence if tokens < extend else None
        paged = self._in_pages(tokens)
        room.chunk -= paged
        room.prefill -= paged
        room.memory -= paged + self._page
        if self._partial is None:
            room.memory -= min(self._allowed(sequence), self._rules.clip_max_new_tokens)

    def _in_pages(self, tokens: int) -> int:
        return -(-tokens // self._page) * self._page

    def _allowed(self, sequence: Sequence) -> int:
        """Output tokens that the engine allows, limited by the pool and the model length."""
        longest = min(self._config.max_model_len, self._pool_tokens) - 1
        return max(min(sequence.max_tokens, longest - sequence.prompt_tokens - 1), 0)

    def _left(self, sequence: Sequence) -> int:
        """Output tokens that a sequence may still have, as the estimate counts them."""
        num_outputs = sequence.num_tokens - sequence.prompt_tokens
        return min(max(self._allowed(sequence) - num_outputs, 0), self._rules.clip_max_new_tokens)

    # ---- decode ----------------------------------------------------------------------------

    def _decode(self, state: SchedulerState, step: ScheduledStep) -> None:
        """Give one token to every running sequence, after retractions if memory is missing."""
        if not state.running:
            return
        if self._lacks(state):
            while len(state.running) > 1 and (not step.preempted or self._lacks(state)):
                self._preempt(state, step, self._least_useful(state.running))
            self.ratio = self._estimate(state.running)
            self._full = None
        else:
            self.ratio = max(self.ratio - self._decay, self._lowest)
        for sequence in state.running:
            has_room = state.allocator.grow(sequence, 1)
            assert has_room, f"{sequence} has no memory, though enough sequences were retracted"
            step.items.append(Item(sequence, 1, sequence.num_computed_tokens))

    def _lacks(self, state: SchedulerState) -> bool:
        """Whether memory is missing for one token of each sequence."""
        allocator = state.allocator
        wanted = sum(
            allocator.num_lacking(one, one.num_computed_tokens + 1) for one in state.running
        )
        return wanted > allocator.num_spare

    def _least_useful(self, running: list[Sequence]) -> Sequence:
        """Return the sequence with the fewest output tokens, then the longest prompt, then last."""
        return min(
            reversed(running),
            key=lambda one: (one.num_tokens - one.prompt_tokens, -one.prompt_tokens),
        )

    def _requeue(self, state: SchedulerState, victim: Sequence) -> None:
        state.waiting.push(victim)

    def _estimate(self, running: list[Sequence]) -> float:
        """Return the ratio of the running requests, as if each generated some more tokens."""
        made = sum(one.num_tokens - one.prompt_tokens for one in running)
        made += self._rules.retract_decode_steps * len(running)
        return min(made / (sum(self._allowed(one) for one in running) + 1), 1.0)
