"""What both engines tell alike of their requests: for pictures of a run that may leap.

An :class:`Observer` hears the same events with the same times from the stepper and from the leaper,
whichever runs; two adapters translate: :class:`StepperEvents` here, and
``LeaperEvents`` beside the leaper. Decodes are not told one by one: a request decodes from the
step that samples its first token to its end, or until it is put out.
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
    """A request's part in a step that it is served in by name; ``samples``: it gets a token."""

    start_ps: int
    end_ps: int
    num_tokens: int
    past: int
    samples: bool
    decodes: bool


class EngineView(Protocol):
    """What an observer may look at; only between calls and results."""

    recorder: Recorder

    @property
    def cause(self) -> str:
        """Why the queue's head waits."""
        ...

    @property
    def num_running(self) -> int:
        """Requests in the engine."""
        ...

    @property
    def num_waiting(self) -> int:
        """Requests in the queue."""
        ...

    def usage_now(self) -> Usage:
        """What memory holds, in slots."""
        ...


class Observer:
    """Sees requests come, enter, be served and leave; as it stands, it looks away.

    Events come in the order of the engine's clock, but a step is told when it is scheduled, so its
    end may lie ahead; who is put out meanwhile is served to the end of a step in flight.
    """

    def begins(self, trace: Trace, recorder: Recorder) -> None:
        """See what will be served: the trace as the engine has it, a sample a request maybe."""

    def arrived(self, index: int, now_ps: int) -> None:
        """See that a request is there."""

    def withdrawn(self, index: int, now_ps: int, why: str) -> None:
        """See that a request is refused, or given up (``why`` is ``ABORT`` then)."""

    def entered(self, index: int, now_ps: int, hit_tokens: int) -> None:
        """See a call let a request in, or back in."""

    def served(self, index: int, chunk: Chunk) -> None:
        """See a step that computes a part of a request, or decodes for it (not each decode)."""

    def preempted(
        self, index: int, now_ps: int, *, num_computed_tokens: int, swapped: bool
    ) -> None:
        """See a victim that had so many computed tokens; a step in flight may still serve it."""

    def planned(self, engine: EngineView, now_ps: int) -> None:
        """See that the scheduling calls due are made."""

    def finished(self, index: int, now_ps: int, output_tokens: int) -> None:
        """See a request end with its last token."""

    def stops(self) -> None:
        """See that the user asks for the end: it comes at the next boundary."""

    def ends(self, now_ps: int) -> None:
        """See the run end, maybe stopped before that."""


class StepperEvents(ScheduleListener):
    """Tells observers what a stepper does."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """Tell of a request."""
        for observer in self._observers:
            observer.arrived(index, now_ps)

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Tell of a request that will not be served any more."""
        for observer in self._observers:
            observer.withdrawn(index, now_ps, why)

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """Tell of a call's victims, entries and chunks."""
        step, now_ps = flight.step, flight.call_ps
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
            for sequence, tokens, past, samples, decodes, _ in flight.items:
                chunk = Chunk(flight.start_ps, flight.end_ps, tokens, past, samples, decodes)
                observer.served(sequence.index, chunk)

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Tell that the calls are made."""
        for observer in self._observers:
            observer.planned(stepper, now_ps)

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Tell who ended."""
        for observer in self._observers:
            for index in results.finished:
                tokens = stepper.recorder.output_tokens[index]
                observer.finished(index, results.step_in_flight.end_ps, tokens)
