"""Events of requests that both engines report in the same way, for pictures of a run.

An :class:`Observer` gets the same events with the same times from the stepper and from the leaper.
Two adapters translate: :class:`StepperEvents` here, and ``LeaperEvents`` beside the leaper. Decode
steps are not reported one by one. A request decodes from the step that samples its first token to
its end, or until it is preempted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvsim.sim.engine.listener import ScheduleListener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.policies.allocators.base import Usage
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace


class Chunk(NamedTuple):
    """A request's reported part in a step; ``samples``: it gets a token."""

    start_ps: int
    end_ps: int
    num_tokens: int
    past: int
    samples: bool
    decodes: bool


class EngineView(Protocol):
    """What an observer may read, only between calls and results."""

    recorder: Recorder

    @property
    def cause(self) -> str:
        """Return why the head of the queue waits."""
        ...

    @property
    def num_running(self) -> int:
        """Number of running requests."""
        ...

    @property
    def num_waiting(self) -> int:
        """Number of requests in the queue."""
        ...

    def usage_now(self) -> Usage:
        """Return the memory by state, in slots."""
        ...


class Observer:
    """Base class of observers: each method is called at an event and does nothing here.

    Events come in the order of the engine's clock. A step is reported when it is scheduled, so its
    end may be in the future. A request that is preempted meanwhile is served to the end of a step
    in flight.
    """

    def begins(self, trace: Trace, recorder: Recorder) -> None:
        """Start with the trace as the engine has it, maybe with one request for each sample."""

    def arrived(self, index: int, now_ps: int) -> None:
        """Note that a request has arrived."""

    def withdrawn(self, index: int, now_ps: int, why: str) -> None:
        """Note that a request is refused, or aborted (``why`` is then ``ABORT``)."""

    def entered(self, index: int, now_ps: int, hit_tokens: int) -> None:
        """Note that a call admits a request, maybe again."""

    def served(self, index: int, chunk: Chunk) -> None:
        """Note a step that computes a part of a request or starts its decoding (not each one)."""

    def preempted(
        self, index: int, now_ps: int, *, num_computed_tokens: int, swapped: bool
    ) -> None:
        """Note a victim and its number of computed tokens; a step in flight may still serve it."""

    def planned(self, engine: EngineView, now_ps: int) -> None:
        """Note that all scheduling calls due are made."""

    def finished(self, index: int, now_ps: int, output_tokens: int) -> None:
        """Note that a request finished with its last token."""

    def stops(self) -> None:
        """Note that the user asks for the end; the run ends at the next boundary."""

    def ends(self, now_ps: int) -> None:
        """Note that the run ended; it may have been stopped early."""


class StepperEvents(ScheduleListener):
    """Reports the events of a stepper to observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """Report a request that arrives."""
        for observer in self._observers:
            observer.arrived(index, now_ps)

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Report a request that is refused or aborted."""
        for observer in self._observers:
            observer.withdrawn(index, now_ps, why)

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        """Report a call's victims, admissions and chunks."""
        step, now_ps = step_in_flight.step, step_in_flight.call_ps
        for observer in self._observers:
            for sequence, num_computed_tokens, swapped_blocks in step.preempted:
                observer.preempted(
                    sequence.index,
                    now_ps,
                    num_computed_tokens=num_computed_tokens,
                    swapped=swapped_blocks > 0,
                )
            for sequence, hit_tokens, _ in step.admitted:
                observer.entered(sequence.index, now_ps, hit_tokens)
            for back in step.swapped_in:
                observer.entered(back.sequence.index, now_ps, 0)
            for sequence, tokens, past, samples, decodes, _ in step_in_flight.items:
                chunk = Chunk(
                    step_in_flight.start_ps, step_in_flight.end_ps, tokens, past, samples, decodes
                )
                observer.served(sequence.index, chunk)

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Report that the calls are made."""
        for observer in self._observers:
            observer.planned(stepper, now_ps)

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Report the requests that finished."""
        for observer in self._observers:
            for index in results.finished:
                tokens = stepper.recorder.output_tokens[index]
                observer.finished(index, results.step_in_flight.end_ps, tokens)
