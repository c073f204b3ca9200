"""The reference engine: one step at a time, every sequence touched, all policies.

The life of a request: it arrives (``add``) and waits. A scheduling call admits it with a hit and
gives it its first chunk. Later calls give it the rest of its prompt. The step that computes its
last known token samples the next one. A request may be preempted; then it waits again and
recomputes. It finishes with the results of the step that samples its last token, and its blocks are
freed.

Scheduling calls and results. A call schedules a step. The step ends at a *boundary*, where its
results are applied. Synchronous engines have one step in flight: call, step, results, call.
Asynchronous engines have two (vLLM's ``async_scheduling``). The call for step k + 2 is made when
step k ends and step k + 1 starts. This call knows the results of step k, but not those of step k +
1. A call that schedules no tokens and preempts no sequence makes no step. The engine then waits for
the oldest step in flight.

Simultaneous events: results of a step are applied, then requests arrive, then the call is made
(``docs/order.md`` has the whole order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.batching.swapping import forget_swapped
from kvsim.sim.engine.accounts import MemoryAccount, RequestAccount
from kvsim.sim.engine.listener import ABORT
from kvsim.sim.engine.loop_guard import LoopGuard
from kvsim.sim.engine.policy_setup import set_up_policies
from kvsim.sim.engine.sequence_groups import SequenceGroups
from kvsim.sim.engine.steps_in_flight import Results, StepsInFlight

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Usage
    from kvsim.policies.batching import ScheduledStep
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.engine.listener import ScheduleListener
    from kvsim.sim.engine.requests import Requests
    from kvsim.sim.engine.steps_in_flight import StepItem
    from kvsim.sim.recording.recorder import Recorder


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
        self.state, self._batching = set_up_policies(config, cost, requests, link, seed)
        self._requests = requests
        self._groups = SequenceGroups(self.state.allocator, config, cost, recorder, seed)
        self._steps_in_flight = StepsInFlight(self.state, cost, link, self._groups, recorder)
        self._in_flight = self._steps_in_flight.in_flight
        self.memory = MemoryAccount(self.state, recorder)
        self._account = RequestAccount(self.state, self.memory, recorder)
        self._loops = LoopGuard(config)
        self._depth = 2 if config.async_scheduling else 1
        self._audit = audit
        self._listener = listener
        self._refused: list[int] = []
        self.cause = "step"
        self._ends_together = False
        self.last_call_ps = -1

    # ---- the four verbs ----------------------------------------------------------------------

    def add(self, index: int, now_ps: int) -> bool:
        """Add a request that arrives; return False if it can never run (it is refused, counted)."""
        if self._listener is not None:
            self._listener.arrived(self, index, now_ps)
        if (reason := self._requests.refusal(index)) is not None:
            self.recorder.refused(index, reason)
            if self._listener is not None:
                self._listener.withdrawn(self, index, now_ps, reason)
            return False
        sequence = self._requests.sequence(index)
        self.state.waiting.push(sequence)
        self.recorder.queue(now_ps, self.num_waiting)
        return True

    def plan(self, now_ps: int) -> int | None:
        """Make the scheduling calls that are due; return the next boundary, ``None`` when idle."""
        self.memory.account(now_ps, idle=not self._in_flight)
        self.last_call_ps = now_ps
        while len(self._in_flight) < self._depth:
            step = self._call(now_ps)
            if not step.items and not step.preempted:
                break
            self._launch(step, now_ps)
            self._refuse_looping(step, now_ps)
        waiting = self.state.num_waiting
        if not self._in_flight and waiting:
            self._refuse_stuck(now_ps)
            return self.plan(now_ps)
        self.recorder.queue(now_ps, waiting, self.cause)
        self.recorder.set_waiting(now_ps, waiting > 0)
        self.memory.fragmented = waiting > 0 and self.state.allocator.fragmented(self.state.head())
        if self._audit:
            self.check_invariants()
            self.num_audited += 1
        if self._listener is not None:
            self._listener.planned(self, now_ps)
        return self._in_flight[0].end_ps if self._in_flight else None

    def cut(self, arrival_ps: int) -> int:
        """Return the boundary after an arrival at ``arrival_ps``: here always the next one."""
        return self._in_flight[0].end_ps

    def apply(self, now_ps: int) -> list[int]:
        """Apply the results of the oldest step in flight: tokens, finishes, freed memory.

        Returns the requests that finished.
        """
        self.memory.account(now_ps, idle=not self._in_flight)
        step_in_flight = self._in_flight.popleft()
        assert step_in_flight.end_ps == now_ps, "results are applied at their boundary"
        self.recorder.step(step_in_flight.start_ps, step_in_flight.time)
        self.recorder.num_steps_outside += not step_in_flight.time.inside
        results = Results(step_in_flight, [], [], [])
        for item in step_in_flight.items:
            if not item.sequence.aborted:
                self._apply_item(item, results, now_ps)
        self._end_batch(now_ps)
        self._groups.settle(now_ps)
        if self._listener is not None:
            self._listener.applied(self, results)
        return results.finished

    def take_refused(self) -> list[int]:
        """Return the requests that the last calls refused, as stuck or looping."""
        refused, self._refused = self._refused, []
        return refused

    def abort(self, index: int, now_ps: int) -> None:
        """Abort an unfinished request of a client that gave up; its blocks are free at once.

        Its tokens in flight are dropped (vLLM 0.32.0, ``Scheduler.finish_requests``). A request of
        a batch that ends together cannot leave the batch: its memory is freed when the batch ends.
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
            self.recorder.queue(now_ps, self.num_waiting)
        self._groups.settle(now_ps)
        sequence.aborted = True
        self.recorder.aborted(index, now_ps)
        if self._listener is not None:
            self._listener.withdrawn(self, index, now_ps, ABORT)

    # ---- parts of a call ---------------------------------------------------------------------

    def _call(self, now_ps: int) -> ScheduledStep:
        step = self._batching.compose(self.state)
        self.cause = step.waits_for or "step"
        for sequence, reason in step.dropped:
            self._refuse(sequence, reason, now_ps)
        return step

    def _launch(self, step: ScheduledStep, now_ps: int) -> None:
        """Add a step behind those in flight."""
        self._account.moved(step, now_ps)
        self._ends_together = step.ends_together
        step_in_flight = self._steps_in_flight.launch(step, now_ps)
        if self._listener is not None:
            self._listener.called(self, step_in_flight)

    # ---- parts of results --------------------------------------------------------------------

    def _apply_item(self, item: StepItem, results: Results, now_ps: int) -> None:
        """Apply the result of one sequence in a step: keys for its blocks, and maybe a token.

        A sequence that was preempted meanwhile also gets the token, but its computed KV is lost.
        """
        sequence = item.sequence
        timely = item.preemption_count == sequence.num_preemptions
        if timely:
            sequence.in_flight -= item.num_tokens
        if not item.samples:
            if timely:
                self.state.allocator.set_keys(sequence, item.past + item.num_tokens)
            return
        num_left = self._num_left(sequence)
        if not num_left:
            results.dropped.append(sequence.index)
            return
        sequence.num_tokens += 1
        self._account.token(item, now_ps)
        done = num_left == 1
        if timely:
            sequence.num_output_placeholders -= 1
            computed = sequence.num_computed_tokens - sequence.num_output_placeholders
            self.state.allocator.set_keys(sequence, min(computed, sequence.num_tokens - 1))
            self._groups.choose_beams(sequence)
            if done:
                self._leave(sequence, now_ps)
        else:
            results.late.append(sequence.index)
            if done:
                self.state.waiting.remove(sequence)
                self.recorder.queue(now_ps, self.num_waiting)
        if done:
            results.finished.append(sequence.index)
            self._account.finished(sequence, now_ps)

    def _num_left(self, sequence: Sequence) -> int:
        """Return the tokens still to come: true lengths, read only when results are applied."""
        num_sampled = sequence.num_tokens - sequence.prompt_tokens
        return self._requests.num_outputs(sequence.index) - num_sampled

    # ---- how requests leave ------------------------------------------------------------------

    def _leave(self, sequence: Sequence, now_ps: int) -> None:
        """End a running sequence; in a batch that ends together it keeps its memory."""
        self.state.running.remove(sequence)
        if self._ends_together:
            self.state.ended.append(sequence)
        else:
            self._release(sequence, now_ps)

    def _end_batch(self, now_ps: int) -> None:
        """When no sequence runs, free the memory of the finished sequences of the batch."""
        if not self.state.running:
            for sequence in self.state.ended:
                self._release(sequence, now_ps)
            self.state.ended.clear()

    def _release(self, sequence: Sequence, now_ps: int) -> None:
        """Free the memory of a sequence."""
        self.memory.released(sequence, sequence.num_computed_tokens, now_ps)
        self.state.allocator.finish(sequence)

    def _withdraw(self, sequence: Sequence) -> None:
        """Remove a sequence that does not run from the engine."""
        state = self.state
        if sequence in state.swapped:
            state.swapped.remove(sequence)
            forget_swapped(state, sequence)
        else:
            state.waiting.remove(sequence)

    def _refuse(self, sequence: Sequence, reason: str, now_ps: int) -> None:
        """Count a sequence that has left the queue for good; a late token of it is dropped."""
        sequence.aborted = True
        self.recorder.refused(sequence.index, reason)
        if self._listener is not None:
            self._listener.withdrawn(self, sequence.index, now_ps, reason)
        self._refused.append(sequence.index)
        self.recorder.queue(now_ps, self.num_waiting)

    def _refuse_stuck(self, now_ps: int) -> None:
        """Refuse the head of the queue if nothing runs and it still does not fit."""
        sequence = self.state.head()
        self._withdraw(sequence)
        self._refuse(sequence, "does not fit even when nothing else runs", now_ps)

    def _refuse_looping(self, step: ScheduledStep, now_ps: int) -> None:
        """Refuse a victim if sequences preempt each other endlessly."""
        sequence = self._loops.victim(step, len(self.state.running) + self.num_waiting)
        if sequence is not None:
            self._withdraw(sequence)
            self._refuse(
                sequence, "it and other requests preempt each other without progress", now_ps
            )

    # ---- for observers of an engine ----------------------------------------------------------

    def usage_now(self) -> Usage:
        """Return the memory by state, in slots; O(running)."""
        return self.memory.usage_now()

    @property
    def num_running(self) -> int:
        """Number of running requests."""
        return len(self.state.running)

    @property
    def num_waiting(self) -> int:
        """Number of requests in the queue, including those on the host."""
        return self.state.num_waiting

    def num_slots(self, index: int) -> int:
        """Tokens of KV that a request will have at its end; policies must not read this."""
        return self._requests.num_slots(index)

    def check_invariants(self) -> None:
        """Verify every structure and counter; O(pool + running)."""
        self.state.check_invariants()

    def name_of(self, index: int) -> str:
        """Return the name of a request."""
        return self._requests.trace.request_id(index)
