"""The main loop: SimPy callbacks around one engine.

Two short functions hold the whole loop: ``_boundary`` and ``_plan``. The engine returns its next
boundary. A known arrival may bring it forward (``cut``), so no timer is ever cancelled. At a
boundary, a busy engine gets the requests that have arrived since the last one, each with its own
time. A timer wakes an idle engine at the next arrival. At one instant results are applied, then
requests arrive, then the next call is made (``docs/order.md``). The clock is that of the engine:
integer picoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import simpy

from kvsim.sim.recording.recorder import NEVER_PS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simpy.events import Event

    from kvsim.sim.engine.requests import Requests


class Engine(Protocol):
    """The methods of an engine that the driver calls; see ``Stepper`` for the contracts."""

    num_audited: int

    def add(self, index: int, now_ps: int) -> bool:
        """Add a request that arrives."""
        ...

    def plan(self, now_ps: int) -> int | None:
        """Make the scheduling calls that are due; return the next boundary, ``None`` when idle."""
        ...

    def cut(self, arrival_ps: int) -> int:
        """Return the boundary, given that a request arrives before it."""
        ...

    def apply(self, now_ps: int) -> Sequence[int]:
        """Apply the results at a boundary; return the requests that finished."""
        ...

    def take_refused(self) -> Sequence[int]:
        """Return the requests that the last calls refused because they can never fit."""
        ...

    def abort(self, index: int, now_ps: int) -> None:
        """Abort an unfinished request of a client that gave up."""
        ...


NO_ARRIVAL_PS = 1 << 200


class Driver:
    """Passes arrivals to an engine and wakes it at its boundaries."""

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
        self._on_boundary = on_boundary
        self._stop = False

    def run(self) -> None:
        """Run until no event is left, or until :meth:`stop`."""
        self._await_arrival()
        self._env.run()

    def stop(self) -> None:
        """End the run at the next boundary."""
        self._stop = True

    def clock_ended(self) -> bool:
        """Whether the time is beyond what the recorder's columns can hold."""
        return int(self._env.now) >= NEVER_PS

    def _boundary(self, _event: Event) -> None:
        """A step (or leap) ends: its results are applied, then the next one is planned."""
        now_ps = int(self._env.now)
        if self._next_ps < now_ps:
            self._take_arrivals(now_ps - 1)
        self._engine.apply(now_ps)
        if self._on_boundary is not None:
            self._on_boundary()
        self._plan(now_ps)

    def _plan(self, now_ps: int) -> None:
        """Make the calls that are due; the next arrival that could be admitted may cut a leap."""
        if self._next_ps <= now_ps:
            self._take_arrivals(now_ps)
        engine = self._engine
        boundary_ps = engine.plan(now_ps)
        if self._stop:
            raise simpy.core.StopSimulation(None)
        if boundary_ps is None:
            self._await_arrival()
            return
        if self._next_ps <= boundary_ps:  # equal: steps may last 0
            boundary_ps = engine.cut(self._next_ps)
        self._post(self._boundary, boundary_ps)

    def _await_arrival(self) -> None:
        if self._next < self._num_requests:
            self._post(self._arrive, self._next_ps)

    def _arrive(self, _event: Event) -> None:
        """Pass requests to an idle engine and make its calls at once."""
        self._plan(int(self._env.now))

    def _take_arrivals(self, until_ps: int) -> None:
        """Pass all requests that arrived up to ``until_ps``, each with its own time."""
        arrivals, number, num_requests = self._arrivals, self._next, self._num_requests
        while self._next_ps <= until_ps:
            self._engine.add(number, self._next_ps)
            number += 1
            self._next_ps = arrivals[number] if number < num_requests else NO_ARRIVAL_PS
        self._next = number

    def _post(self, callback: Callable[[Event], None], at_ps: int) -> None:
        """Set the only timer: there is never more than one pending event."""
        timer = self._env.timeout(at_ps - self._env.now)
        assert timer.callbacks is not None
        timer.callbacks.append(callback)
