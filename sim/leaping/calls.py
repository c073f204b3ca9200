"""A scheduling call of a leaper: running members are served in sum, the queue's head by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_within
from kvsim.sim.leaping.cache.pieces import NOTHING_FOUND
from kvsim.sim.leaping.events import Served
from kvsim.sim.leaping.members import LeapMembers

if TYPE_CHECKING:
    from kvsim.sim.leaping.cache.pieces import Found
    from kvsim.sim.leaping.state import Member, StepInFlight


class LeapCalls(LeapMembers):
    """See the module docstring; mirrors ``policies/batching/mixed_running_first.py``."""

    __slots__ = ()

    def _call(self, now_ps: int) -> bool:
        """Make call ``V``: take memory, admit, and set up the leap; False if it does nothing."""
        flight = self._flight
        num_dropped = 0
        if flight is not None:
            num_dropped = self._foresee_endings(flight)
        self._cause = "step"
        preempted, victims_dropped = self._serve_decoding(flight)
        num_dropped -= victims_dropped
        batch = self._batch
        if self._num_contested:
            self._publish_contested()
        context = batch * self._v - self._sum_x
        items: list[tuple[Member, int]] = []
        if self._partial is not None:
            preempted = not self._continue_partial(now_ps, items)
        if preempted:
            self._cause = "blocks"
        elif self._waiting:
            self._admit_waiting(now_ps, items)
        if not batch and not items and not preempted:
            return False
        self._leap_call_ps = now_ps
        self._leap_start_ps = now_ps if flight is None else flight.end_ps
        self._num_tokens_counted = batch - num_dropped
        if self._listener is not None:
            self._tell_call(items)
        if items or preempted:
            self._single_step(items, batch, context)
        else:
            self._leap(context)
        return True

    def _serve_decoding(self, flight: StepInFlight | None) -> tuple[bool, int]:
        """Give decoding members their blocks: whether somebody gave way, and stop tokens lost."""
        cache, block_size = self._cache, self._block_size
        phase = (self._v - 1) % block_size
        demand, num_dropped = self._demand[phase], 0
        preempted = demand > cache.num_free
        if preempted:
            num_dropped = self._preempt_for(demand, flight)
            demand = self._demand[phase]
        elif demand:
            cache.take(demand)
        self._num_empty += demand * block_size - self._batch
        return preempted, num_dropped

    def _tell_call(self, items: list[tuple[Member, int]]) -> None:
        prompts = self._requests.prompt_tokens
        served = []
        for member, tokens in items:
            past, samples = (
                member.num_computed_tokens - tokens,
                member.num_computed_tokens == member.num_tokens,
            )
            decodes = samples and tokens == 1 and past >= prompts[member.index]
            served.append(Served(member.index, tokens, past, samples, decodes))
        ending = self._flight.ending if self._flight is not None else []
        dropped = [member.index for member in ending if member.decoding]
        assert self._listener is not None
        self._listener.called(self._told(), self._v, served, dropped)

    def _foresee_endings(self, flight: StepInFlight) -> int:
        """Async: pass over members whose last token is in flight; return stop tokens in flight.

        A stop token cannot be foreseen: its member is served once more, for nothing.
        """
        if self._last_steps and self._last_steps[0][0] < self._v:
            flight.ending += self._pop_ending()
        if not flight.ending:
            return 0
        for member in flight.ending:
            if self._requests.foreseen[member.index] and member.decoding:
                if self._shares_outputs:  # it still holds its blocks for this call
                    self._cache.publish(member.holding, self._public(self._v - 1 - member.x))
                self._leave(member)
        return sum(member.decoding for member in flight.ending)

    def _continue_partial(self, now_ps: int, items: list[tuple[Member, int]]) -> bool:
        """Give the sequence in mid-prefill its next chunk; False if it had to preempt itself."""
        member = self._partial
        assert member is not None
        tokens = self._cut(
            member.num_tokens - member.num_computed_tokens, self._budget - self._batch
        )
        if tokens == 0:
            return True
        self._partial = None
        blocks = self._blocks_for(member, tokens)
        if blocks > self._cache.num_free:
            self._preempt(self._running.popitem()[1])
            return False
        self._serve(member, tokens, blocks, now_ps, items)
        return True

    def _admit_waiting(self, now_ps: int, items: list[tuple[Member, int]]) -> None:
        """Admit from the head of the queue until something refuses it."""
        waiting, running, cache = self._waiting, self._running, self._cache
        block_size = self._block_size
        budget = self._budget - self._batch
        if items:  # the rest of a prompt
            budget -= items[0][1]
        while waiting:
            if len(running) >= self._max_num_seqs:
                self._cause = "max_num_seqs"
                return
            if budget <= 0:
                self._cause = "token_budget"
                return
            index = waiting[0]
            member = self._members.get(index)
            if member is None:
                member = self._members[index] = self._member(index)
                if self._newly_must_publish:
                    self._publish_contested()
            known = member.num_tokens
            found = NOTHING_FOUND
            if self.caching:
                found = cache.find(member.holding.path, (known - 1) // block_size)
            tokens = known - found.num_blocks * block_size
            if tokens > budget:
                if not self._chunked:
                    self._cause = "token_budget"
                    return
                tokens = self._cut(tokens, budget)
                if tokens == 0:
                    self._cause = "token_budget"
                    return
            cause = self._refusal(member, found, tokens)
            if cause is not None:
                self._cause = cause
                return
            waiting.popleft()
            self._admit(member, found, now_ps)
            self._serve(member, tokens, self._blocks_for(member, tokens), now_ps, items)
            budget -= tokens
        self._cause = "step"

    def _cut(self, wanted: int, limit: int) -> int:
        """Tokens of a chunk where a member could use ``wanted``."""
        return min(wanted, limit)

    def _blocks_for(self, member: Member, tokens: int) -> int:
        """Blocks that a member in prefill lacks for its next chunk."""
        computed, block_size = member.num_computed_tokens, self._block_size
        return -(-(computed + tokens) // block_size) + -computed // block_size

    def _refusal(self, member: Member, found: Found, tokens: int) -> str | None:
        """Why the queue's head cannot enter with a first chunk of ``tokens``."""
        free, known = self._cache.num_free, member.num_tokens
        chunk = -(-tokens // self._block_size) + found.num_free
        self._head_needs = chunk
        if chunk > free:
            return "blocks"
        keep = self._watermark if self._running else 0
        whole = -(-min(known, self._max_model_len) // self._block_size) - found.num_blocks
        if chunk + keep > free or (self._reserve and whole + found.num_free + keep > free):
            return "admission rule"
        return None

    def _admit(self, member: Member, found: Found, now_ps: int) -> None:
        """Seat the queue's head with its hit."""
        index, hit_blocks = member.index, found.num_blocks
        if self.caching:
            self._cache.hold(member.holding, found)
        member.order = self._num_admitted
        self._num_admitted += 1
        self._running[index] = member
        member.num_computed_tokens = hit_tokens = hit_blocks * self._block_size
        recorder = self.recorder
        if self._listener is not None:
            resumed = member.preempted
            self._listener.admitted(
                self._told(), index, now_ps, hit_tokens, member.num_tokens, resumed=resumed
            )
        if member.preempted:
            recorder.admitted(index, now_ps, hit_tokens, resumed=True)
        else:
            recorder.first_scheduled_ps[index] = now_ps
            recorder.hit_tokens[index] = hit_tokens

    def _serve(
        self,
        member: Member,
        tokens: int,
        blocks: int,
        now_ps: int,
        items: list[tuple[Member, int]],
    ) -> None:
        """Give a member in prefill its chunk and blocks."""
        if blocks:
            self._cache.take(blocks)
            member.last_block_ps = now_ps
        self._num_empty += blocks * self._block_size - tokens
        member.num_computed_tokens += tokens
        if self.caching:
            self._publish_chunk(member)
        if member.num_computed_tokens < member.num_tokens:
            self._partial = member
        items.append((member, tokens))

    def _publish_chunk(self, member: Member) -> None:
        """Give keys to the blocks that a chunk fills."""
        self._cache.publish(member.holding, member.num_computed_tokens // self._block_size)

    def _single_step(self, items: list[tuple[Member, int]], batch: int, context: int) -> None:
        """Cost a step with prefill in it; those whose known tokens are computed sample."""
        prefills = []
        prompts = self._requests.prompt_tokens
        for member, tokens in items:
            past = member.num_computed_tokens - tokens
            if (
                tokens == 1
                and member.num_computed_tokens == member.num_tokens
                and past >= prompts[member.index]
            ):
                batch += 1
                context += member.num_computed_tokens
            else:
                prefills.append((tokens, past))
        time = self._cost.step(prefills, batch, context)
        self._first_ps, self._inside, self._weights_ps, self._prefill_ps, self._overhead_ps = time
        self._slope_ps, self._leap_steps = 0, 1
        end_ps = self._leap_start_ps + self._first_ps
        for member, _ in items:
            if member.num_computed_tokens == member.num_tokens:
                self._sample(member, end_ps)
                self._join(member)

    def _sample(self, member: Member, end_ps: int) -> None:
        """Its first token, or the first after a preemption, comes at the end of this step."""
        recorder, index = self.recorder, member.index
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = end_ps
        else:
            recorder.stall(index, end_ps, end_ps - member.last_token_ps)

    def _leap(self, context: int) -> None:
        """Nothing but decodes: how many calls like this one follow."""
        v, batch, flight = self._v, self._batch, self._flight
        (
            self._first_ps,
            self._slope_ps,
            valid,
            self._inside,
            self._weights_ps,
            self._overhead_ps,
            self._overhead_slope_ps,
        ) = self._cost.decode_run(batch, context)
        self._prefill_ps = 0
        steps = 1
        if flight is None or not flight.ending:
            steps = self._last_steps[0][0] - v + 1
            if valid is not None and valid < steps:
                steps = valid
            if steps > 1 and self._num_contested:
                steps = min(steps, self._next_publication() - v)
            if steps > 1:
                steps = self._within_memory(steps)
        self._leap_steps = steps

    def _within_memory(self, steps: int) -> int:
        """Cut a leap where blocks run out, or where the head starts to lack even its chunk."""
        blocks = self._cache.num_free
        if self._cause == "admission rule":
            blocks -= self._head_needs
        if blocks // self._batch * self._block_size >= steps - 1:
            return steps
        phase = self._v % self._block_size
        return min(steps, 1 + steps_within(self._demand, phase, self._batch, blocks))
