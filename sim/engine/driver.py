"""The main loop: SimPy callbacks around one engine.

Two short functions, ``_boundary`` and ``_plan``, hold it all. The engine says when its next
boundary is; a known arrival may bring it forward (``cut``), so no timer is ever taken back. A busy
engine is handed the requests that arrived since its last boundary, each at its own time; an idle
one is woken by an URGENT arrival event. A request that arrives exactly at a boundary is seen by
that boundary's scheduling call. The clock is the engine's: integer picoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import simpy
from simpy.events import NORMAL, URGENT, Event, EventPriority

from kvsim.sim.recording.recorder import NEVER_PS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.sim.engine.requests import Requests


class Engine(Protocol):
    """What the driver needs of an engine; see ``Stepper`` for the contracts."""

    num_audited: int

    def add(self, index: int, now_ps: int) -> bool:
        """A request arrives."""
        ...

    def plan(self, now_ps: int) -> int | None:
        """Scheduling calls are due; the next boundary, ``None`` when idle."""
        ...

    def cut(self, arrival_ps: int) -> int:
        """The boundary, given that a request arrives before it."""
        ...

    def apply(self, now_ps: int) -> Sequence[int]:
        """The boundary is reached: commit; the requests that ended."""
        ...

    def take_refused(self) -> Sequence[int]:
        """Requests that the last calls refused: it turned out that they never fit."""
        ...

    def abort(self, index: int, now_ps: int) -> None:
        """The client of an unfinished request gave up."""
        ...


NO_ARRIVAL_PS = 1 << 200


class Driver:
    """Feeds arrivals to an engine and wakes it at its boundaries."""

    def __init__(
        self,
        engine: Engine,
        requests: Requests,
        on_boundary: Callable[[], None] | None = None,
    ) -> None:
        self._engine = engine
        self._arrivals = requests.arrival_ps
        self._num_requests = len(requests)
        self._next = 0
        self._next_ps = self._arrivals[0] if self._num_requests else NO_ARRIVAL_PS
        self._env = simpy.Environment(0)
        self._timer = Event(self._env)
        self._timer._ok, self._timer._value = True, None
        self._on_boundary = on_boundary
        self._stop = False

    def run(self) -> None:
        """Run until nothing is left, or until :meth:`stop`."""
        self._await_arrival()
        self._env.run()

    def stop(self) -> None:
        """End the run at the next boundary."""
        self._stop = True

    def clock_ended(self) -> bool:
        """Whether the time is one that the recorder's columns cannot hold."""
        return int(self._env.now) >= NEVER_PS

    def _boundary(self, _event: Event) -> None:
        """A step (or leap) ends: its results are applied, then the next one is planned."""
        now_ps = int(self._env.now)
        if self._next_ps <= now_ps:
            self._take_arrivals(now_ps)
        self._engine.apply(now_ps)
        if self._on_boundary is not None:
            self._on_boundary()
        self._plan(now_ps)

    def _plan(self, now_ps: int) -> None:
        """Scheduling calls are due; a leap ends early at the next arrival that could enter."""
        engine = self._engine
        boundary_ps = engine.plan(now_ps)
        if self._stop:
            raise simpy.core.StopSimulation(None)
        if boundary_ps is None:
            self._await_arrival()
            return
        if self._next_ps <= boundary_ps:  # equal: steps may last 0
            boundary_ps = engine.cut(self._next_ps)
        self._post(self._boundary, boundary_ps, NORMAL)

    def _await_arrival(self) -> None:
        if self._next < self._num_requests:
            self._post(self._arrive, self._next_ps, URGENT)

    def _arrive(self, _event: Event) -> None:
        """Requests arrive at an idle engine: it is called at once."""
        now_ps = int(self._env.now)
        self._take_arrivals(now_ps)
        self._plan(now_ps)

    def _take_arrivals(self, now_ps: int) -> None:
        """Hand over all requests that arrived up to now, each at its own time."""
        arrivals, number, num_requests = self._arrivals, self._next, self._num_requests
        while self._next_ps <= now_ps:
            self._engine.add(number, self._next_ps)
            number += 1
            self._next_ps = arrivals[number] if number < num_requests else NO_ARRIVAL_PS
        self._next = number

    def _post(self, callback: Callable[[Event], None], at_ps: int, priority: EventPriority) -> None:
        """Arm the one timer (an event that happens by itself, armed again after each use)."""
        timer, env = self._timer, self._env
        timer.callbacks = [callback]
        env.schedule(timer, priority, at_ps - env.now)
