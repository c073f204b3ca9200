"""The specification: one step at a time, every sequence touched, all policies.

The life of a request: it arrives (``add``) and waits; a scheduling call admits it with a hit and
gives it its first chunk; further calls give it the rest of its prompt; the step that computes its
last known token samples the next one; it may be preempted, wait again and recompute; the results
of the step that samples its last token end it and its blocks go back.

Scheduling calls and results. A step is scheduled by a call and ends at a *boundary*, where its
results are applied. Synchronous engines have one step in flight: call, step, results, call.
Asynchronous ones have two (vLLM's ``async_scheduling``): the call for step k + 2 is made when step
k ends, knowing its results but not those of step k + 1, which starts just then. A call that hands
out nothing and preempts nobody is no step; then the oldest step in flight is waited for.

Simultaneous events: results of a step are applied before the call at the same boundary, and a
request that arrives exactly at a boundary is seen by that call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.policies.allocators import make_allocator
from kvsim.policies.batching import BATCHING, SchedulerState
from kvsim.policies.batching.swapping import forget_swapped
from kvsim.policies.context import PolicyContext
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.preemption import MODES, VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.sim.flights import Flights, Results
from kvsim.sim.loop_guard import LoopGuard
from kvsim.sim.memory_account import MemoryAccount
from kvsim.sim.next_use import NextUse
from kvsim.sim.schedule_listener import ABORT
from kvsim.sim.sequence_groups import SequenceGroups
from kvsim.sim.work_cost import StepWorkCost

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Usage
    from kvsim.policies.batching import ScheduledStep
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.cost import StepCost
    from kvsim.sim.flights import FlightItem
    from kvsim.sim.host_link import HostLink
    from kvsim.sim.recorder import Recorder
    from kvsim.sim.requests import Requests
    from kvsim.sim.schedule_listener import ScheduleListener


class Stepper:
    """One engine replica; ``add``, ``plan``, ``cut``, ``apply`` as in ``design.md`` section 5."""

    name = "stepper"

    def __init__(
        self,
        config: SchedulerConfig,
        cost: StepCost,
        requests: Requests,
        recorder: Recorder,
        *,
        seed: int = 0,
        audit: bool = False,
        listener: ScheduleListener | None = None,
        link: HostLink | None = None,
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.num_audited = 0
        work = StepWorkCost(cost, config)
        context = PolicyContext(
            config,
            cost=work,
            link=link,
            seed=seed,
            truth=requests,
            future=NextUse(requests),
        )
        self._predictor = build(PREDICTORS.find(config.predictor), context)
        context = replace(context, predictor=self._predictor)
        allocator = make_allocator(context)
        context = replace(
            context, cached_tokens=lambda sequence: allocator.find_hit(sequence).tokens
        )
        self.state = SchedulerState(
            replace(context, truth=None, future=None),
            allocator,
            build(QUEUE_ORDERS.find(config.policy), context),
            VICTIMS.find(config.victim),
            MODES[config.preemption_mode](context),
        )
        self._batching = build(BATCHING.find(config.batching), context)
        self._requests = requests
        self._groups = SequenceGroups(allocator, config, cost, recorder, seed)
        self._flights = Flights(self.state, cost, link, self._groups, recorder)
        self._in_flight = self._flights.in_flight
        self.memory = MemoryAccount(self.state, recorder)
        self._loops = LoopGuard(config)
        self._depth = 2 if config.async_scheduling else 1
        self._audit = audit
        self._listener = listener
        self._refused: list[int] = []
        self.cause = "step"
        self._ends_together = False
        self.last_call_ps = -1

    # ---- the four verbs --------------------------------------------------------------------

    def add(self, index: int, now_ps: int) -> bool:
        """A request arrives; False if it can never run (it is refused and counted)."""
        if self._listener is not None:
            self._listener.arrived(self, index, now_ps)
        if (reason := self._requests.refusal(index)) is not None:
            self.recorder.refused(index, reason)
            if self._listener is not None:
                self._listener.withdrawn(self, index, now_ps, reason)
            return False
        sequence = self._requests.sequence(index)
        self.state.waiting.push(sequence)
        self.recorder.queue(now_ps, self._num_waiting)
        return True

    def plan(self, now_ps: int) -> int | None:
        """Scheduling calls due now; return the next boundary, ``None`` when idle."""
        self.memory.account(now_ps, idle=not self._in_flight)
        self.last_call_ps = now_ps
        while len(self._in_flight) < self._depth:
            step = self._call(now_ps)
            if not step.items and not step.preempted:
                break
            self._launch(step, now_ps)
            self._refuse_looping(step, now_ps)
        waiting = self._num_waiting
        if not self._in_flight and waiting:
            self._refuse_stuck(now_ps)
            return self.plan(now_ps)
        self.recorder.queue(now_ps, waiting, self.cause)
        self.recorder.set_waiting(now_ps, waiting > 0)
        self.memory.fragmented = waiting > 0 and self.state.allocator.fragmented(self._head())
        if self._audit:
            self.check_invariants()
            self.num_audited += 1
        if self._listener is not None:
            self._listener.planned(self, now_ps)
        return self._in_flight[0].end_ps if self._in_flight else None

    def cut(self, arrival_ps: int) -> int:
        """Return the boundary of an arrival at ``arrival_ps``: here the next one, always."""
        return self._in_flight[0].end_ps

    def apply(self, now_ps: int) -> list[int]:
        """Results of the oldest step in flight: tokens grow, first tokens, finishes, frees.

        Returns the requests that ended.
        """
        self.memory.account(now_ps, idle=not self._in_flight)
        flight = self._in_flight.popleft()
        assert flight.end_ps == now_ps, "results are applied at their boundary"
        self.recorder.step(flight.start_ps, flight.time)
        self.recorder.num_steps_outside += not flight.time.inside
        results = Results(flight, [], [], [])
        for item in flight.items:
            sequence = item.sequence
            if sequence.aborted:
                continue
            if item.stint == sequence.num_preemptions:
                sequence.in_flight -= item.num_tokens
            if not item.samples:
                if item.stint == sequence.num_preemptions:
                    self.state.allocator.set_keys(sequence, item.past + item.num_tokens)
                continue
            if self._is_done(sequence):
                results.dropped.append(sequence.index)
                continue
            sequence.known += 1
            self._record_token(item, now_ps)
            if item.stint != sequence.num_preemptions:
                results.late.append(sequence.index)
                if self._is_done(sequence):
                    self.state.waiting.remove(sequence)
                    self.recorder.queue(now_ps, self._num_waiting)
            else:
                sequence.owed -= 1
                computed = sequence.computed - sequence.owed
                self.state.allocator.set_keys(sequence, min(computed, sequence.known - 1))
                self._groups.choose_beams(sequence)
                if self._is_done(sequence):
                    self._leave(sequence, now_ps)
            if self._is_done(sequence):
                results.finished.append(sequence.index)
                self._predictor.finished(sequence)
                num_outputs = sequence.known - sequence.prompt_tokens
                self.recorder.finished(sequence.index, now_ps, num_outputs)
        self._end_batch(now_ps)
        self._groups.settle(now_ps)
        if self._listener is not None:
            self._listener.applied(self, results)
        return results.finished

    def take_refused(self) -> list[int]:
        """Requests refused by the last calls, as stuck or looping."""
        refused, self._refused = self._refused, []
        return refused

    def abort(self, index: int, now_ps: int) -> None:
        """The client of an unfinished request gave up: it leaves, its blocks are free at once.

        Tokens in flight for it are dropped (vLLM 0.32.0, ``Scheduler.finish_requests``). Of a batch
        that ends together it cannot leave: what it holds is free when the batch ends.
        """
        self.memory.account(now_ps, idle=not self._in_flight)
        state = self.state
        for sequence in state.running:
            if sequence.index == index:
                self._leave(sequence, now_ps)
                self._end_batch(now_ps)
                break
        else:
            out = (*state.swapped, *state.waiting)
            sequence = next(waiting for waiting in out if waiting.index == index)
            self._withdraw(sequence)
            self.recorder.queue(now_ps, self._num_waiting)
        self._groups.settle(now_ps)
        sequence.aborted = True
        self.recorder.aborted(index, now_ps)
        if self._listener is not None:
            self._listener.withdrawn(self, index, now_ps, ABORT)

    # ---- parts -----------------------------------------------------------------------------

    def _call(self, now_ps: int) -> ScheduledStep:
        step = self._batching.compose(self.state)
        self.cause = step.waits_for or "step"
        for sequence, reason in step.dropped:
            self._refuse(sequence, reason, now_ps)
        return step

    def _launch(self, step: ScheduledStep, now_ps: int) -> None:
        """Put a step behind those in flight."""
        self._note_moves(step, now_ps)
        self._ends_together = step.ends_together
        flight = self._flights.launch(step, now_ps)
        if self._listener is not None:
            self._listener.called(self, flight)

    def _note_moves(self, step: ScheduledStep, now_ps: int) -> None:
        """Who entered, was put out, or came back from the host in a call."""
        recorder = self.recorder
        for admission in step.admitted:
            index = admission.sequence.index
            recorder.admitted(index, now_ps, admission.hit_tokens, resumed=admission.resumed)
            if self._predictor.predicts and not admission.resumed:
                recorder.predicted(index, self._predictor.output_tokens(admission.sequence))
            if admission.resumed:
                self._judge(admission.sequence, admission.hit_tokens)
        for preemption in step.preempted:
            victim = preemption.sequence
            if preemption.swapped_blocks:
                recorder.swapped_out(victim.index, now_ps, preemption.swapped_blocks)
            else:
                recorder.preempted(victim.index, now_ps, preemption.computed)
            self.memory.released(victim, preemption.computed, now_ps)
        for sequence, num_blocks, hit_tokens in step.swapped_in:
            recorder.swapped_in(sequence.index, now_ps, num_blocks)
            sequence.last_block_ps = now_ps
            self._judge(sequence, hit_tokens)

    def _refuse_stuck(self, now_ps: int) -> None:
        """Nothing runs and the head still does not fit: it never will."""
        sequence = self._head()
        self._withdraw(sequence)
        self._refuse(sequence, "does not fit even when nothing else runs", now_ps)

    def _refuse(self, sequence: Sequence, reason: str, now_ps: int) -> None:
        """Count a sequence that has left the queue for good; a late token of it is dropped."""
        sequence.aborted = True
        self.recorder.refused(sequence.index, reason)
        if self._listener is not None:
            self._listener.withdrawn(self, sequence.index, now_ps, reason)
        self._refused.append(sequence.index)
        self.recorder.queue(now_ps, self._num_waiting)

    @property
    def _num_waiting(self) -> int:
        """Requests that are in the engine and do not run, those on the host included."""
        return len(self.state.waiting) + len(self.state.swapped)

    def _head(self) -> Sequence:
        """Who is next to enter."""
        return self.state.swapped[0] if self.state.swapped else self.state.waiting.head()

    def _withdraw(self, sequence: Sequence) -> None:
        """Take a sequence that does not run out of the engine."""
        state = self.state
        if sequence in state.swapped:
            state.swapped.remove(sequence)
            forget_swapped(state, sequence)
        else:
            state.waiting.remove(sequence)

    def _judge(self, sequence: Sequence, hit_tokens: int) -> None:
        """A victim runs again: tell the mode, and note whether its choice was right."""
        judgement = self.state.mode.returned(sequence, hit_tokens)
        if judgement is not None:
            self.recorder.judged(swapped=judgement.swapped, right=judgement.right)

    def _refuse_looping(self, step: ScheduledStep, now_ps: int) -> None:
        """Refuse a victim where sequences put each other out for ever."""
        sequence = self._loops.victim(step, len(self.state.running) + self._num_waiting)
        if sequence is not None:
            self._withdraw(sequence)
            self._refuse(sequence, "it and others put each other out and get no further", now_ps)

    def _is_done(self, sequence: Sequence) -> bool:
        """The truth about lengths, asked only when results are applied."""
        num_outputs = sequence.known - sequence.prompt_tokens
        return num_outputs >= self._requests.num_outputs(sequence.index)

    def _record_token(self, item: FlightItem, now_ps: int) -> None:
        """Note a token; its gap is a stall if a preemption lies between it and the one before."""
        recorder, sequence = self.recorder, item.sequence
        index, gap_ps = sequence.index, now_ps - sequence.last_token_ps
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = now_ps
        elif item.stint != sequence.last_token_stint:
            recorder.stall(index, now_ps, gap_ps, sequence.width)
        else:
            recorder.gaps.add(now_ps, gap_ps, sequence.width)
        sequence.last_token_ps, sequence.last_token_stint = now_ps, item.stint
        recorder.output_tokens[index] += 1
        recorder.further_tokens[index] += sequence.width - 1

    def _leave(self, sequence: Sequence, now_ps: int) -> None:
        """A running sequence ends; in a batch that ends together it keeps what it owns."""
        self.state.running.remove(sequence)
        if self._ends_together:
            self.state.ended.append(sequence)
        else:
            self._release(sequence, now_ps)

    def _end_batch(self, now_ps: int) -> None:
        """Where nobody runs any more, take back what the ended members of a batch kept."""
        if not self.state.running:
            for sequence in self.state.ended:
                self._release(sequence, now_ps)
            self.state.ended.clear()

    def _release(self, sequence: Sequence, now_ps: int) -> None:
        """Take back what a sequence owns."""
        self.memory.released(sequence, sequence.computed, now_ps)
        self.state.allocator.finish(sequence)

    def usage_now(self) -> Usage:
        """What memory holds, in slots; O(running)."""
        return self.memory.usage_now()

    @property
    def num_running(self) -> int:
        """Requests in the engine."""
        return len(self.state.running)

    @property
    def num_waiting(self) -> int:
        """Requests in the queue, those on the host included."""
        return self._num_waiting

    def num_slots(self, index: int) -> int:
        """Tokens of KV that a request will have when it ends; behind the wall: not for policies."""
        return self._requests.num_slots(index)

    def check_invariants(self) -> None:
        """Verify every structure and counter; O(pool + running)."""
        state = self.state
        state.allocator.check_invariants()
        members = [*state.running, *state.ended]
        num_seqs = sum(sequence.width for sequence in members)
        assert num_seqs <= self.config.max_num_seqs, "more sequences than seats"
        for sequence in state.running:
            known = sequence.known + sequence.owed
            assert sequence.computed <= known, f"{sequence} computed more than it knows"
            assert state.allocator.num_held(sequence), f"{sequence} has no block"
        held = state.allocator.owners()
        assert held == {sequence.index for sequence in members}, "blocks without an owner"
        state.mode.host.check_invariants()
        out = {sequence.index for sequence in state.swapped}
        assert state.mode.host.owners() == out, "host blocks without an owner"

    def name_of(self, index: int) -> str:
        """Name of a request."""
        return self._requests.trace.request_id(index)
