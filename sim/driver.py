"""The main loop: SimPy callbacks around one engine.

Two short functions, ``_arrive`` and ``_boundary``, hold it all. The engine says when its next
boundary is; an arrival may bring it forward (``cut``). Timers are never interrupted: each carries
a generation number, and one whose number is old is dropped. Arrivals are URGENT, so a request that
arrives exactly at a boundary is seen by that boundary's scheduling call. The clock is the
engine's: integer picoseconds.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import simpy
from simpy.events import NORMAL, URGENT, Event

from kvsim.sim.leaper import Leaper, leapable
from kvsim.sim.recorder import Recorder
from kvsim.sim.requests import Requests
from kvsim.sim.stepper import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost import StepCost
    from kvsim.sim.stepper import ScheduleListener
    from kvsim.traces.trace import Trace


class Engine(Protocol):
    """What the driver needs of an engine; see ``Stepper`` for the contracts."""

    num_audited: int

    def add(self, index: int, now_ps: int) -> bool: ...
    def plan(self, now_ps: int) -> int | None: ...
    def cut(self, now_ps: int) -> int | None: ...
    def apply(self, now_ps: int) -> None: ...


class _Timer(Event):
    """An event that happens by itself and carries the generation it was armed in."""

    def __init__(
        self, env: simpy.Environment, callback: Callable[[Event], None], generation: int
    ) -> None:
        self.env = env
        self.callbacks = [callback]
        self._ok = True
        self._value = generation


class Driver:
    """Feeds arrivals to an engine and wakes it at its boundaries."""

    def __init__(
        self,
        engine: Engine,
        requests: Requests,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._engine = engine
        self._arrivals = requests.arrival_ps
        self._next = 0
        self._env = simpy.Environment(0)
        self._generation = 0
        self._idle = True
        self._on_progress = on_progress
        self._stop = False

    def run(self) -> bool:
        """Run until nothing is left; False if it was stopped by Ctrl-C before that."""
        if self._arrivals:
            self._post(self._arrive, self._arrivals[0], URGENT)
        previous = None
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, self._on_sigint)
        try:
            self._env.run()
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)
        return not self._stop

    def _arrive(self, _event: Event) -> None:
        """All requests of this instant arrive: an idle engine is called, a leap is cut."""
        now, engine, arrivals = self._env.now, self._engine, self._arrivals
        entered = False
        while self._next < len(arrivals) and arrivals[self._next] == now:
            entered = engine.add(self._next, now) or entered
            self._next += 1
        if entered:
            if self._idle:
                self._arm(self._call, now)
            elif (boundary_ps := engine.cut(now)) is not None:
                self._arm(self._boundary, boundary_ps)
        if self._next < len(arrivals):
            self._post(self._arrive, arrivals[self._next], URGENT)
        if self._on_progress is not None:
            self._on_progress(self._next, len(arrivals))
        if self._stop:
            raise simpy.core.StopSimulation(None)

    def _boundary(self, event: Event) -> None:
        """A step (or leap) ends: its results are applied, the next one is planned."""
        if event._value == self._generation:  # else a timer that was replaced
            self._engine.apply(self._env.now)
            self._call(event)

    def _call(self, event: Event) -> None:
        if event._value != self._generation:
            return
        boundary_ps = self._engine.plan(self._env.now)
        self._idle = boundary_ps is None
        if boundary_ps is not None:
            self._arm(self._boundary, boundary_ps)

    def _arm(self, callback: Callable[[Event], None], at_ps: int) -> None:
        self._idle = False
        self._generation += 1
        self._post(callback, at_ps, NORMAL)

    def _post(self, callback: Callable[[Event], None], at_ps: int, priority: int) -> None:
        env = self._env
        env.schedule(_Timer(env, callback, self._generation), priority, at_ps - env.now)

    def _on_sigint(self, _signal: int, _frame: object) -> None:
        self._stop = True


@dataclass(slots=True)
class EngineRun:
    """What an engine did.

    ``reason`` names the invariants leapt on, or why the stepper ran; ``partial`` is set where
    Ctrl-C ended the run; ``audited`` counts the scheduling calls whose invariants were checked.
    """

    recorder: Recorder
    engine: str
    reason: str
    partial: bool
    audited: int


def run(
    trace: Trace,
    config: SchedulerConfig,
    cost: StepCost,
    *,
    max_tokens: NDArray[np.int64],
    step: bool = False,
    audit: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    listener: ScheduleListener | None = None,
) -> EngineRun:
    """Replay a trace against one engine.

    The leaper runs where ``leapable(config)`` holds, else (or with ``step``, or for a
    ``listener``) the stepper does. Same inputs, same recorder.

    Parameters
    ----------
    max_tokens : int64, shape (n,)
        What the engine is told each request may generate (see ``assume_max_tokens``).
    on_progress : callable, optional
        Called with (requests arrived, requests in all).
    """
    requests = Requests(trace, config, max_tokens)
    recorder = Recorder(len(trace))
    able, reason = leapable(config)
    engine: Stepper | Leaper
    if step or listener is not None or not able:
        reason = "asked for" if step or listener is not None else reason
        engine = Stepper(config, cost, requests, recorder, audit=audit, listener=listener)
    else:
        engine = Leaper(config, cost, requests, recorder, audit=audit)
    complete = Driver(engine, requests, on_progress).run()
    return EngineRun(recorder, engine.name, reason, not complete, engine.num_audited)
