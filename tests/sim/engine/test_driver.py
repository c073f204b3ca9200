"""The main loop: who is called when, ties, Ctrl-C, and which engine runs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.conformance.schedule_log import ScheduleLog
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.requests import Requests
from kvsim.sim.recording.recorder import FINISHED, UNFINISHED
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import StepInFlight

CONFIG = SchedulerConfig(num_gpu_blocks=100, max_model_len=100)


def make_trace(*arrivals_ns: int, output_tokens: int = 3) -> Trace:
    number = len(arrivals_ns)
    return Trace(
        "hand-made",
        np.array(arrivals_ns, dtype=np.int64),
        np.full(number, 10, dtype=np.int64),
        np.full(number, output_tokens, dtype=np.int64),
    )


class ScriptedEngine:
    """Writes down what it is asked; busy for ``lasts`` ps after each call that finds work."""

    num_audited = 0

    def __init__(self, lasts: int, cut_to: int | None = None) -> None:
        self.log: list[tuple[object, ...]] = []
        self._lasts = lasts
        self._cut_to = cut_to
        self._todo = 0

    def add(self, index: int, now_ps: int) -> bool:
        self.log.append(("add", index, now_ps))
        self._todo += 1
        return True

    def plan(self, now_ps: int) -> int | None:
        self.log.append(("plan", now_ps))
        return now_ps + self._lasts if self._todo else None

    def cut(self, arrival_ps: int) -> int:
        self.log.append(("cut", arrival_ps))
        return arrival_ps + self._lasts if self._cut_to is None else self._cut_to

    def apply(self, now_ps: int) -> list[int]:
        self.log.append(("apply", now_ps))
        self._todo -= 1
        return []

    def take_refused(self) -> list[int]:
        return []

    def abort(self, index: int, now_ps: int) -> None:
        raise AssertionError(index, now_ps)


def driven(engine: ScriptedEngine, *arrivals_ns: int) -> list[tuple[object, ...]]:
    trace = make_trace(*arrivals_ns)
    Driver(engine, Requests(trace, CONFIG, trace.output_tokens)).run()
    return engine.log


def test_an_idle_engine_is_called_at_an_arrival_with_all_that_arrive_then() -> None:
    assert driven(ScriptedEngine(lasts=700), 5, 5) == [
        ("add", 0, 5000),
        ("add", 1, 5000),
        ("plan", 5000),
        ("apply", 5700),
        ("plan", 5700),
        ("apply", 6400),
        ("plan", 6400),
    ]


def test_arrivals_of_a_step_come_before_its_results_those_at_its_end_after_them() -> None:
    engine = ScriptedEngine(lasts=2000, cut_to=7000)
    assert driven(engine, 5, 6, 7)[:7] == [
        ("add", 0, 5000),
        ("plan", 5000),
        ("cut", 6000),
        ("add", 1, 6000),
        ("apply", 7000),
        ("add", 2, 7000),  # exactly at the boundary: seen by its call
        ("plan", 7000),
    ]


def test_a_cut_makes_the_boundary_come_sooner() -> None:
    engine = ScriptedEngine(lasts=9000, cut_to=6500)
    assert driven(engine, 5, 6)[2:6] == [
        ("cut", 6000),
        ("add", 1, 6000),
        ("apply", 6500),
        ("plan", 6500),
    ]


def test_nothing_arrives() -> None:
    assert driven(ScriptedEngine(lasts=1)) == []


def test_an_idle_engine_waits_for_the_next_arrival() -> None:
    log = driven(ScriptedEngine(lasts=500), 1, 9)
    assert log[3:] == [
        ("plan", 1500),
        ("add", 1, 9000),
        ("plan", 9000),
        ("apply", 9500),
        ("plan", 9500),
    ]


# ---- run -------------------------------------------------------------------------------------

COST = LinearCost(base_ps=1000)


def test_progress_counts_ends_not_arrivals() -> None:
    trace, seen = make_trace(0, 0, 2, 50), []
    run(
        trace,
        CONFIG,
        COST,
        max_tokens=trace.output_tokens,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[0][0] < 2, "two have arrived, none has ended"
    assert seen[-1] == (4, 4)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("rules", "step", "engine", "reason"),
    [
        ({}, False, "leaper", "FCFS, one full-attention group, at most one partial prefill"),
        ({}, True, "stepper", "asked for"),
        ({"queue__policy": "priority"}, False, "stepper", 'policy "priority" breaks the order'),
        (
            {"batching__long_prefill_token_threshold": 5},
            False,
            "stepper",
            "a long-prefill threshold",
        ),
    ],
)
def test_which_engine_runs_and_why(
    rules: dict[str, object], step: bool, engine: str, reason: str
) -> None:
    trace = make_trace(0, 3)
    config = engine_config(num_gpu_blocks=100, max_model_len=100, **rules)
    done = run(trace, config, COST, max_tokens=trace.output_tokens, step=step)
    assert done.engine == engine
    assert done.reason.startswith(reason)
    assert not done.partial
    assert list(done.recorder.status) == [FINISHED, FINISHED]


def test_a_listener_makes_the_stepper_run() -> None:
    trace = make_trace(0)
    listener = StepperLog(trace)
    done = run(trace, CONFIG, COST, max_tokens=trace.output_tokens, listener=listener)
    assert done.engine == "stepper"
    assert isinstance(listener, ScheduleLog)
    assert len(listener.records) == 3


@pytest.mark.parametrize("step", [True, False])
def test_an_audit_counts_calls(step: bool) -> None:
    trace = make_trace(0, 3)
    done = run(trace, CONFIG, COST, max_tokens=trace.output_tokens, step=step, audit=True)
    assert done.audited > 0


@pytest.mark.parametrize(
    "config",
    [
        SchedulerConfig(block_size=10**9, num_gpu_blocks=2),
        SchedulerConfig(enable_chunked_prefill=False, max_num_batched_tokens=256),
    ],
)
def test_the_stepper_runs_where_the_leaper_would_not_do(config: SchedulerConfig) -> None:
    trace = make_trace(0, 3)
    assert run(trace, config, COST, max_tokens=trace.output_tokens).engine == "stepper"


class CtrlC(StepperLog):
    """Presses Ctrl-C during the fifth step."""

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        super().called(stepper, step_in_flight)
        if len(self.records) == 5:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_leaves_a_partial_result() -> None:
    trace = make_trace(0, 0, output_tokens=50)
    before = signal.getsignal(signal.SIGINT)
    log = CtrlC(trace)
    done = run(trace, CONFIG, COST, max_tokens=trace.output_tokens, listener=log)
    assert done.partial
    assert list(done.recorder.status) == [UNFINISHED, UNFINISHED]
    assert 4 <= done.recorder.output_tokens[0] < 10
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait_for_the_step_to_end() -> None:
    class Impatient(CtrlC):
        def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
            super().called(stepper, step_in_flight)
            if len(self.records) == 5:
                os.kill(os.getpid(), signal.SIGINT)

    trace = make_trace(0, output_tokens=50)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(trace, CONFIG, COST, max_tokens=trace.output_tokens, listener=Impatient(trace))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("step", [True, False])
def test_times_beyond_the_clock_are_told_in_one_sentence(step: bool) -> None:
    trace = make_trace(0)
    with pytest.raises(ValueError, match="passes 106 days"):
        run(trace, CONFIG, LinearCost(10**19), max_tokens=trace.output_tokens, step=step)
