"""The main loop: SimPy callbacks around one engine.

Two short functions, ``_boundary`` and ``_plan``, hold it all. The engine says when its next
boundary is; a known arrival may bring it forward (``cut``), so no timer is ever taken back. A busy
engine is handed the requests that arrived since its last boundary, each at its own time; an idle
one is woken by an URGENT arrival event. A request that arrives exactly at a boundary is seen by
that boundary's scheduling call. The clock is the engine's: integer picoseconds.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import simpy
from simpy.events import NORMAL, URGENT, Event, EventPriority

from kvsim.sim.engine_choice import can_leap, leaper_of
from kvsim.sim.observer import LeaperEvents, StepperEvents
from kvsim.sim.queue_clock import MAX_FLIPS
from kvsim.sim.recorder import NEVER_PS, Recorder
from kvsim.sim.requests import Requests
from kvsim.sim.samples import Samples
from kvsim.sim.schedule_listener import Listeners
from kvsim.sim.session_driver import SessionDriver
from kvsim.sim.stepper import Stepper
from kvsim.sim.strangers import told_of_strangers
from kvsim.traces.closed_loop import nobody_follows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost import StepCost
    from kvsim.sim.host_link import HostLink
    from kvsim.sim.leap_listener import LeapListener
    from kvsim.sim.leaper import Leaper
    from kvsim.sim.observer import Observer
    from kvsim.sim.schedule_listener import ScheduleListener
    from kvsim.traces.closed_loop import FollowOns
    from kvsim.traces.trace import Trace


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
    seed: int = 0,
    step: bool = False,
    audit: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    listener: ScheduleListener | None = None,
    leap_listener: LeapListener | None = None,
    observers: Sequence[Observer] = (),
    follow_ons: FollowOns | None = None,
    num_users: int | None = None,
    link: HostLink | None = None,
) -> EngineRun:
    """Replay a trace against one engine.

    The leaper runs where ``can_leap`` says so, else (or with ``step``, or for a
    ``listener``) the stepper does. Same inputs, same recorder. Samples of a row may be requests of
    their own (:mod:`kvsim.sim.samples`): listeners see those, the recorder has rows.

    Parameters
    ----------
    max_tokens : int64, shape (n,)
        What the engine is told each request may generate (see ``assume_max_tokens``).
    seed
        Of policies that draw.
    on_progress : callable, optional
        Called after each boundary with (requests ended, requests in all).
    listener, leap_listener
        See what the stepper, or the leaper, decides; a ``listener`` makes the stepper run.
    observers
        See what requests go through, whichever engine runs.
    follow_ons, num_users
        A closed loop: see :class:`~kvsim.sim.session_driver.SessionDriver`.
    link
        The way to host memory, where the options say that victims may be swapped.
    """
    samples = Samples.of(trace, config)
    if samples is not None:
        trace, max_tokens = samples.trace, max_tokens[samples.row]
    requests = Requests(trace, config, max_tokens)
    span_ps = max(requests.arrival_ps, default=0)
    grows_steadily = (config.allocator, config.batching) == ("paged", "mixed-running-first")
    max_flips = MAX_FLIPS if grows_steadily and config.samples == "requests" else None
    recorder = Recorder(len(trace), span_ps, max_flips=max_flips)
    recorder.arrival_ps = requests.arrival_ps
    able, reason = can_leap(config, requests)
    engine: Stepper | Leaper
    if step or listener is not None or not able:
        reason = "asked for" if step or listener is not None else reason
        if observers:
            events = StepperEvents(observers)
            listener = events if listener is None else Listeners((listener, events))
        engine = Stepper(
            config, cost, requests, recorder, seed=seed, audit=audit, listener=listener, link=link
        )
    else:
        leaper = leaper_of(config)
        assert leaper is not None, "what can be leapt has a leaper"
        if observers:
            assert leap_listener is None, "a leaper has one listener"
            leap_listener = LeaperEvents(observers)
        engine = leaper(
            config, cost, requests, recorder, seed=seed, audit=audit, listener=leap_listener
        )
    on_boundary = None
    if on_progress is not None:

        def on_boundary() -> None:
            on_progress(recorder.num_ended, len(trace))

    driver: Driver | SessionDriver = Driver(engine, requests, on_boundary)
    if follow_ons is not None or num_users is not None or requests.timeout_ps is not None:
        if follow_ons is None:
            follow_ons = nobody_follows(len(trace))
        driver = SessionDriver(engine, requests, recorder, follow_ons, num_users, on_boundary)
    for observer in observers:
        observer.begins(trace if samples is None else samples.trace, recorder)
    partial = _run_until_stopped(driver, config, observers)
    for observer in observers:
        observer.ends(recorder.end_ps)
    if samples is not None:
        recorder = samples.fold(recorder)
    return EngineRun(recorder, engine.name, reason, partial, engine.num_audited)


def _run_until_stopped(
    driver: Driver | SessionDriver, config: SchedulerConfig, observers: Sequence[Observer]
) -> bool:
    """Run to the end; True where Ctrl-C stopped it before that, a second one stops it at once."""
    previous = None
    stopped = False

    def on_sigint(_signal: int, _frame: object) -> None:
        nonlocal stopped
        if stopped:  # asked again: the boundary does not come, as where a policy hangs
            raise KeyboardInterrupt
        stopped = True
        driver.stop()
        for observer in observers:
            observer.stops()

    if threading.current_thread() is threading.main_thread():
        previous = signal.signal(signal.SIGINT, on_sigint)
    try:
        with told_of_strangers(config, driver.clock_ended):
            driver.run()
    except OverflowError:
        raise ValueError(
            "the simulated time passes 106 days, the most that can be told: the load, a delay or a "
            "step's cost is far beyond what the engine can serve"
        ) from None
    finally:
        if previous is not None:
            signal.signal(signal.SIGINT, previous)
    return stopped
