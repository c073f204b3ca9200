"""Listeners of a stepper: logs, audits, pictures. A listener overrides the events it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight

ABORT = "the client gave up"


class ScheduleListener:
    """Base class of listeners: gets every call and every boundary of a stepper, does nothing."""

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """Note that a request has arrived."""

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Note that a request is refused (``why`` is the reason) or aborted (``ABORT``)."""

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        """Note the result of a scheduling call."""

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Note that all calls due are made; ``stepper.cause`` is why the queue's head waits."""

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Note that the results of a step in flight were applied."""


class Listeners(ScheduleListener):
    """Several listeners as one, called in order."""

    def __init__(self, listeners: Sequence[ScheduleListener]) -> None:
        self._listeners = listeners

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        """Report a request that arrives."""
        for listener in self._listeners:
            listener.arrived(stepper, index, now_ps)

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Report a request that is refused or aborted."""
        for listener in self._listeners:
            listener.withdrawn(stepper, index, now_ps, why)

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        """Report a call."""
        for listener in self._listeners:
            listener.called(stepper, step_in_flight)

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Report that the calls are made."""
        for listener in self._listeners:
            listener.planned(stepper, now_ps)

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Report the results."""
        for listener in self._listeners:
            listener.applied(stepper, results)
