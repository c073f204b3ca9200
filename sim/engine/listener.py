"""Who watches a stepper: logs, audits, pictures. A listener overrides what it wants to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight

ABORT = "the client gave up"


class ScheduleListener:
    """Sees every call and every boundary of a stepper; as it stands, it looks away."""

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """See that a request is there."""

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """See that a request is refused (the reason), or that its client gave up (``ABORT``)."""

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """See what a scheduling call handed out."""

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """See that all calls due are made; ``stepper.cause`` is why the queue's head waits."""

    def applied(self, stepper: Stepper, results: Results) -> None:
        """See that the results of a flight were applied."""


class Listeners(ScheduleListener):
    """Several listeners as one, told in order."""

    def __init__(self, listeners: Sequence[ScheduleListener]) -> None:
        self._listeners = listeners

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """Tell each of a request."""
        for listener in self._listeners:
            listener.arrived(stepper, index, now_ps)

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Tell each of a request that is refused, or given up."""
        for listener in self._listeners:
            listener.withdrawn(stepper, index, now_ps, why)

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """Tell each of the call."""
        for listener in self._listeners:
            listener.called(stepper, flight)

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Tell each that the calls are made."""
        for listener in self._listeners:
            listener.planned(stepper, now_ps)

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Tell each of the results."""
        for listener in self._listeners:
            listener.applied(stepper, results)
