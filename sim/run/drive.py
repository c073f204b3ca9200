"""One run: an engine is chosen for a trace, driven to the end, and leaves its recorder."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.engine.closed_loop_driver import SessionDriver
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.listener import Listeners, ScheduleListener
from kvsim.sim.engine.observer import Observer, StepperEvents
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.samples import Samples
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.leaping.events import LeaperEvents
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.recording.waiting_clock import MAX_FLIPS
from kvsim.sim.run.engine_choice import can_leap, leaper_of
from kvsim.sim.run.options import RunOptions
from kvsim.sim.run.plugin_errors import plugin_errors
from kvsim.traces.adjust.closed_loop import nobody_follows
from kvsim.traces.common.arguments import check_call, check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.leaping.events import LeapListener
    from kvsim.sim.leaping.leaper import Leaper
    from kvsim.traces.adjust.closed_loop import FollowOns
    from kvsim.traces.trace.trace import Trace


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


class Engine(NamedTuple):
    """What runs: rules, step cost, and the way to host memory where victims may be swapped."""

    config: SchedulerConfig
    cost: StepCost
    link: HostLink | None = None


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who sees what happens in a run.

    ``on_progress`` is called after each boundary with (requests ended, requests in all). A
    ``listener`` sees every decision of the stepper, and makes it run; a ``leap_listener`` sees
    those of the leaper. ``observers`` see what requests go through, whichever engine runs.

    Raises
    ------
    ValueError
        On what cannot watch.
    """

    on_progress: Callable[[int, int], None] | None = None
    listener: ScheduleListener | None = None
    leap_listener: LeapListener | None = None
    observers: Sequence[Observer] = ()

    def __post_init__(self) -> None:
        check_call("on_progress", self.on_progress, "(requests ended, requests in all)")
        what = "a ScheduleListener, or None"
        check_kind("listener", self.listener, ScheduleListener | None, what)
        check_kind("observers", self.observers, list | tuple, "a list of Observers")
        for one in self.observers:
            check_kind("observers", one, Observer, "a list of Observers")

    def listens(self) -> ScheduleListener | None:
        """What the stepper tells all of them through."""
        if not self.observers:
            return self.listener
        events = StepperEvents(self.observers)
        return events if self.listener is None else Listeners((self.listener, events))

    def leap_listens(self) -> LeapListener | None:
        """What a leaper tells them through."""
        if not self.observers:
            return self.leap_listener
        assert self.leap_listener is None, "a leaper has one listener"
        return LeaperEvents(self.observers)


PLAIN: Final = RunOptions()
NOBODY: Final = Watchers()


def run(
    trace: Trace,
    engine: Engine,
    *,
    max_tokens: NDArray[np.int64],
    options: RunOptions = PLAIN,
    follow_ons: FollowOns | None = None,
    watchers: Watchers = NOBODY,
) -> EngineRun:
    """Replay a trace against one engine.

    The leaper runs where ``can_leap`` says so, else (or with ``options.step``, or for a listener)
    the stepper does. Same inputs, same recorder. Samples of a row may be requests of their own
    (:mod:`kvsim.sim.engine.samples`): listeners see those, the recorder has rows.

    Parameters
    ----------
    max_tokens : int64, shape (n,)
        What the engine is told each request may generate (see ``assume_max_tokens``).
    options
        ``step``, ``audit``, ``seed`` and ``num_users`` count here; the others shape the trace.
    follow_ons
        A closed loop: see :class:`~kvsim.sim.engine.closed_loop_driver.SessionDriver`.
    """
    samples = Samples.of(trace, engine.config)
    if samples is not None:
        trace, max_tokens = samples.trace, max_tokens[samples.row]
    requests = Requests(trace, engine.config, max_tokens)
    chosen, reason = _engine_of(engine, requests, options, watchers)
    recorder = chosen.recorder
    driver = _driver_of(chosen, requests, follow_ons, options.num_users, watchers.on_progress)
    for observer in watchers.observers:
        observer.begins(trace, recorder)
    partial = _run_until_stopped(driver, engine.config, watchers.observers)
    for observer in watchers.observers:
        observer.ends(recorder.end_ps)
    if samples is not None:
        recorder = samples.fold(recorder)
    return EngineRun(recorder, chosen.name, reason, partial, chosen.num_audited)


def _engine_of(
    engine: Engine, requests: Requests, options: RunOptions, watchers: Watchers
) -> tuple[Stepper | Leaper, str]:
    """The leaper, or else the stepper, and why."""
    config, cost, link = engine
    recorder = _recorder_of(config, requests)
    seed, audit = options.seed, options.audit
    able, reason = can_leap(config, requests)
    asked = options.step or watchers.listener is not None
    if asked or not able:
        told = watchers.listens()
        stepper = Stepper(
            config, cost, requests, recorder, seed=seed, audit=audit, listener=told, link=link
        )
        return stepper, "asked for" if asked else reason
    leaper = leaper_of(config)
    assert leaper is not None, "what can be leapt has a leaper"
    leapt = watchers.leap_listens()
    return leaper(config, cost, requests, recorder, seed=seed, audit=audit, listener=leapt), reason


def _recorder_of(config: SchedulerConfig, requests: Requests) -> Recorder:
    """A recorder that knows the arrivals.

    See :class:`~kvsim.sim.recording.waiting_clock.QueueClock`.
    """
    span_ps = max(requests.arrival_ps, default=0)
    allocator, batching = config.allocator, config.batching.policy
    grows_steadily = (allocator.kind, batching) == ("paged", "mixed-running-first")
    max_flips = MAX_FLIPS if grows_steadily and allocator.samples == "requests" else None
    recorder = Recorder(len(requests), span_ps, max_flips=max_flips)
    recorder.arrival_ps = requests.arrival_ps
    return recorder


def _driver_of(
    engine: Stepper | Leaper,
    requests: Requests,
    follow_ons: FollowOns | None,
    num_users: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> Driver | SessionDriver:
    """What feeds the engine: sessions where arrivals depend on answers, or clients give up."""
    recorder, num_requests = engine.recorder, len(requests)
    on_boundary = None
    if on_progress is not None:

        def on_boundary() -> None:
            on_progress(recorder.num_ended, num_requests)

    if follow_ons is None and num_users is None and requests.timeout_ps is None:
        return Driver(engine, requests, on_boundary)
    if follow_ons is None:
        follow_ons = nobody_follows(num_requests)
    return SessionDriver(engine, requests, recorder, follow_ons, num_users, on_boundary)


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
        with plugin_errors(config, driver.clock_ended):
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
