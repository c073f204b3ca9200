"""A scheduling call of a leaper: decoding requests are served in sum, others one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_within
from kvsim.sim.leaping.cache.pieces import NOTHING_FOUND
from kvsim.sim.leaping.events import Served
from kvsim.sim.leaping.running import LeapRunning

if TYPE_CHECKING:
    from kvsim.sim.leaping.cache.pieces import Found
    from kvsim.sim.leaping.state import Running, StepInFlight


class LeapCalls(LeapRunning):
    """See the module docstring; mirrors ``policies/batching/mixed_running_first.py``."""

    __slots__ = ()

    def _call(self, now_ps: int) -> bool:
        """Make call ``V``: take memory, admit, set up the leap; return False if it does nothing."""
        step_in_flight = self._step_in_flight
        num_dropped = 0
        if step_in_flight is not None:
            num_dropped = self._foresee_endings(step_in_flight)
        self._cause = "step"
        preempted, victims_dropped = self._serve_decoding(step_in_flight)
        num_dropped -= victims_dropped
        batch = self._batch
        if self._num_contested:
            self._publish_contested()
        context = batch * self._v - self._sum_x
        items: list[tuple[Running, int]] = []
        if self._partial is not None:
            preempted = not self._continue_partial(now_ps, items)
        if preempted:
            self._cause = "blocks"
        elif self._waiting:
            self._admit_waiting(now_ps, items)
        if not batch and not items and not preempted:
            return False
        self._leap_call_ps = now_ps
        self._leap_start_ps = now_ps if step_in_flight is None else step_in_flight.end_ps
        self._num_tokens_counted = batch - num_dropped
        if self._listener is not None:
            self._report_call(items)
        if items or preempted:
            self._single_step(items, batch, context)
        else:
            self._leap(context)
        return True

    def _serve_decoding(self, step_in_flight: StepInFlight | None) -> tuple[bool, int]:
        """Give decoding requests their blocks; return whether it preempted, stop tokens lost."""
        cache, block_size = self._cache, self._block_size
        phase = (self._v - 1) % block_size
        demand, num_dropped = self._demand[phase], 0
        preempted = demand > cache.num_free
        if preempted:
            num_dropped = self._preempt_for(demand, step_in_flight)
            demand = self._demand[phase]
        elif demand:
            cache.take(demand)
        self._num_empty += demand * block_size - self._batch
        return preempted, num_dropped

    def _report_call(self, items: list[tuple[Running, int]]) -> None:
        prompts = self._requests.prompt_tokens
        served = []
        for request, tokens in items:
            past, samples = (
                request.num_computed_tokens - tokens,
                request.num_computed_tokens == request.num_tokens,
            )
            decodes = samples and tokens == 1 and past >= prompts[request.index]
            served.append(Served(request.index, tokens, past, samples, decodes))
        ending = self._step_in_flight.ending if self._step_in_flight is not None else []
        dropped = [request.index for request in ending if request.decoding]
        assert self._listener is not None
        self._listener.called(self._whole(), self._v, served, dropped)

    def _foresee_endings(self, step_in_flight: StepInFlight) -> int:
        """Async: skip requests whose last token is in flight; return stop tokens in flight.

        A stop token cannot be foreseen: its request is served once more, and that token is dropped.
        """
        if self._last_steps and self._last_steps[0][0] < self._v:
            step_in_flight.ending += self._pop_ending()
        if not step_in_flight.ending:
            return 0
        for request in step_in_flight.ending:
            if self._requests.foreseen[request.index] and request.decoding:
                if self._shares_outputs:  # it still holds its blocks for this call
                    self._cache.publish(request.holding, self._public(self._v - 1 - request.x))
                self._leave(request)
        return sum(request.decoding for request in step_in_flight.ending)

    def _continue_partial(self, now_ps: int, items: list[tuple[Running, int]]) -> bool:
        """Give the partly computed prompt its next chunk; return False if it preempted itself."""
        request = self._partial
        assert request is not None
        tokens = self._cut(
            request.num_tokens - request.num_computed_tokens, self._budget - self._batch
        )
        if tokens == 0:
            return True
        self._partial = None
        blocks = self._blocks_for(request, tokens)
        if blocks > self._cache.num_free:
            self._preempt(self._running.popitem()[1])
            return False
        self._serve(request, tokens, blocks, now_ps, items)
        return True

    def _admit_waiting(self, now_ps: int, items: list[tuple[Running, int]]) -> None:
        """Admit from the head of the queue until a request is refused."""
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
            request = self._seen.get(index)
            if request is None:
                request = self._seen[index] = self._make_running(index)
                if self._newly_must_publish:
                    self._publish_contested()
            known = request.num_tokens
            found = NOTHING_FOUND
            if self.caching:
                found = cache.find(request.holding.path, (known - 1) // block_size)
            tokens = known - found.num_blocks * block_size
            if tokens > budget:
                if not self._chunked:
                    self._cause = "token_budget"
                    return
                tokens = self._cut(tokens, budget)
                if tokens == 0:
                    self._cause = "token_budget"
                    return
            cause = self._refusal(request, found, tokens)
            if cause is not None:
                self._cause = cause
                return
            waiting.popleft()
            self._admit(request, found, now_ps)
            self._serve(request, tokens, self._blocks_for(request, tokens), now_ps, items)
            budget -= tokens
        self._cause = "step"

    def _cut(self, wanted: int, limit: int) -> int:
        """Return the tokens of a chunk for a request that could use ``wanted``."""
        return min(wanted, limit)

    def _blocks_for(self, request: Running, tokens: int) -> int:
        """Return the blocks that a request in prefill needs for its next chunk."""
        computed, block_size = request.num_computed_tokens, self._block_size
        return -(-(computed + tokens) // block_size) + -computed // block_size

    def _refusal(self, request: Running, found: Found, tokens: int) -> str | None:
        """Return why the head of the queue cannot be admitted with a first chunk of ``tokens``."""
        free, known = self._cache.num_free, request.num_tokens
        chunk = -(-tokens // self._block_size) + found.num_free
        self._head_needs = chunk
        if chunk > free:
            return "blocks"
        keep = self._watermark if self._running else 0
        whole = -(-min(known, self._max_model_len) // self._block_size) - found.num_blocks
        if chunk + keep > free or (self._reserve and whole + found.num_free + keep > free):
            return "admission rule"
        return None

    def _admit(self, request: Running, found: Found, now_ps: int) -> None:
        """Admit the head of the queue with its hit."""
        index, hit_blocks = request.index, found.num_blocks
        if self.caching:
            self._cache.hold(request.holding, found)
        request.order = self._num_admitted
        self._num_admitted += 1
        self._running[index] = request
        request.num_computed_tokens = hit_tokens = hit_blocks * self._block_size
        recorder = self.recorder
        if self._listener is not None:
            resumed = request.preempted
            self._listener.admitted(
                self._whole(), index, now_ps, hit_tokens, request.num_tokens, resumed=resumed
            )
        if request.preempted:
            recorder.admitted(index, now_ps, hit_tokens, resumed=True)
        else:
            recorder.first_scheduled_ps[index] = now_ps
            recorder.hit_tokens[index] = hit_tokens

    def _serve(
        self,
        request: Running,
        tokens: int,
        blocks: int,
        now_ps: int,
        items: list[tuple[Running, int]],
    ) -> None:
        """Give a request in prefill its chunk and blocks."""
        if blocks:
            self._cache.take(blocks)
            request.last_block_ps = now_ps
        self._num_empty += blocks * self._block_size - tokens
        request.num_computed_tokens += tokens
        if self.caching:
            self._publish_chunk(request)
        if request.num_computed_tokens < request.num_tokens:
            self._partial = request
        items.append((request, tokens))

    def _publish_chunk(self, request: Running) -> None:
        """Set the keys of the blocks that a chunk fills."""
        self._cache.publish(request.holding, request.num_computed_tokens // self._block_size)

    def _single_step(self, items: list[tuple[Running, int]], batch: int, context: int) -> None:
        """Compute the cost of a step with prefill, and sample for requests that are computed."""
        prefills = []
        prompts = self._requests.prompt_tokens
        for request, tokens in items:
            past = request.num_computed_tokens - tokens
            if (
                tokens == 1
                and request.num_computed_tokens == request.num_tokens
                and past >= prompts[request.index]
            ):
                batch += 1
                context += request.num_computed_tokens
            else:
                prefills.append((tokens, past))
        time = self._cost.step(prefills, batch, context)
        self._first_ps, self._inside, self._weights_ps, self._prefill_ps, self._overhead_ps = time
        self._slope_ps, self._leap_steps = 0, 1
        end_ps = self._leap_start_ps + self._first_ps
        for request, _ in items:
            if request.num_computed_tokens == request.num_tokens:
                self._sample(request, end_ps)
                self._join(request)

    def _sample(self, request: Running, end_ps: int) -> None:
        """Note that the first token (also after a preemption) comes at the end of this step."""
        recorder, index = self.recorder, request.index
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = end_ps
        else:
            recorder.stall(index, end_ps, end_ps - request.last_token_ps)

    def _leap(self, context: int) -> None:
        """Set up a leap of decodes only: compute how many calls like this one follow."""
        v, batch, step_in_flight = self._v, self._batch, self._step_in_flight
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
        if step_in_flight is None or not step_in_flight.ending:
            steps = self._last_steps[0][0] - v + 1
            if valid is not None and valid < steps:
                steps = valid
            if steps > 1 and self._num_contested:
                steps = min(steps, self._next_publication() - v)
            if steps > 1:
                steps = self._within_memory(steps)
        self._leap_steps = steps

    def _within_memory(self, steps: int) -> int:
        """Cut a leap where blocks run out, or where the head has no room for its chunk any more."""
        blocks = self._cache.num_free
        if self._cause == "admission rule":
            blocks -= self._head_needs
        if blocks // self._batch * self._block_size >= steps - 1:
            return steps
        phase = self._v % self._block_size
        return min(steps, 1 + steps_within(self._demand, phase, self._batch, blocks))
