"""What steps spend their time on: leaps as their steps, windows against brute force, whole runs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.conformance.random_scenario import random_scenario
from kvsim.sim.cost.equal_steps import steps_ps
from kvsim.sim.cost.step_cost import StepTime
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.recording.step_parts import BOOKED_PARTS, PARTS, STEPS
from kvsim.sim.recording.time_windows import FIRST_WIDTH_PS
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results

SHARE = st.integers(0, FIRST_WIDTH_PS // 3)
LEAPS = st.lists(
    st.tuples(
        st.integers(0, FIRST_WIDTH_PS),  # idle before it
        st.integers(1, 12),  # steps
        SHARE,  # weights
        SHARE,  # prefill
        SHARE,  # overhead
        st.integers(1, FIRST_WIDTH_PS),  # kv
        st.sampled_from([0, 0, 1, FIRST_WIDTH_PS // 7]),  # slope of kv
    ),
    max_size=8,
)


@given(LEAPS)
def test_leaps_are_their_steps_and_windows_add_up(
    leaps: list[tuple[int, int, int, int, int, int, int]],
) -> None:
    leapt, stepped = Recorder(0), Recorder(0)
    totals = dict.fromkeys(PARTS, 0)
    now_ps = num_steps = 0
    for idle_ps, steps, weights_ps, prefill_ps, overhead_ps, kv_ps, slope_ps in leaps:
        for recorder in (leapt, stepped):
            recorder.idle(now_ps, now_ps + idle_ps)
            recorder.interval(now_ps, now_ps + idle_ps, 0, 0, 0, 0, 0)
        now_ps = start_ps = now_ps + idle_ps
        first_ps = weights_ps + prefill_ps + overhead_ps + kv_ps
        parts = (weights_ps, prefill_ps, overhead_ps)
        for j in range(steps):
            step_ps = first_ps + slope_ps * j
            stepped.interval(now_ps, now_ps + step_ps, 0, 0, 0, 0, 1)
            stepped.step(now_ps, StepTime(step_ps, True, *parts))
            now_ps += step_ps
            totals["kv"] += kv_ps + slope_ps * j
        leapt.interval(start_ps, now_ps, 0, 0, 0, 0, 1)
        assert now_ps == start_ps + steps_ps(first_ps, slope_ps, steps)
        if not leapt.steps(start_ps, now_ps, steps, *(steps * part for part in parts)):
            leapt.spread_steps(start_ps, steps, (first_ps, slope_ps), *parts, 0)
        totals["idle"] += idle_ps
        for name, part in zip(("weights", "prefill", "overhead"), parts, strict=True):
            totals[name] += steps * part
        num_steps += steps
    assert leapt.windows == stepped.windows
    assert leapt.num_steps == num_steps
    parts_ps = leapt.parts_ps()
    assert {name: sum(values) for name, values in parts_ps.items()} == totals
    in_sum = [sum(values) for values in zip(*parts_ps.values(), strict=True)]
    assert in_sum == leapt.windows["window"]


def test_a_step_across_an_edge_is_shared_out_by_time() -> None:
    recorder = Recorder(0)
    start_ps = FIRST_WIDTH_PS - 1
    recorder.interval(0, start_ps + 3, 0, 0, 0, 0, 1)
    recorder.idle(0, start_ps)
    recorder.step(start_ps, StepTime(3, True, 2, 0, 1))  # 2 of 3 ps are the second window's
    assert recorder.parts_ps() == {
        "weights": [0, 2],
        "kv": [1, -1],  # rounded down at the edge, so that parts add up
        "prefill": [0, 0],
        "overhead": [0, 1],
        "idle": [start_ps, 0],
    }
    assert recorder.windows[STEPS] == [0, 1]


def test_overhead_may_shrink_behind_growing_attention() -> None:
    leapt, stepped = Recorder(0), Recorder(0)
    width_ps = FIRST_WIDTH_PS
    leapt.spread_steps(0, 5, (width_ps, 0), 3, 0, 100, -20)
    for j in range(5):
        stepped.step(j * width_ps, StepTime(width_ps, True, 3, 0, 100 - 20 * j))
    assert leapt.windows == stepped.windows
    assert leapt.windows["overhead"] == [100, 80, 60, 40, 20]


def test_a_step_of_no_length_counts() -> None:
    recorder = Recorder(0)
    recorder.step(FIRST_WIDTH_PS, StepTime(0, True, 0, 0, 0))
    assert recorder.windows[STEPS] == [0, 1]


class Times(ScheduleListener):
    """Sums the times of a stepper's flights."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(PARTS, 0)

    def applied(self, stepper: Stepper, results: Results) -> None:
        time = results.step_in_flight.time
        own = {"weights": time.weights_ps, "prefill": time.prefill_ps, "overhead": time.overhead_ps}
        for name, part_ps in own.items():
            self.sums[name] += part_ps
        self.sums["kv"] += time.duration_ps - sum(own.values())


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_run_are_those_of_its_steps(seed: int) -> None:
    trace, config, cost, max_tokens = random_scenario(Random(seed))
    times = Times()
    run(trace, config, cost, max_tokens=max_tokens, listener=times)
    recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
    parts_ps = {name: sum(values) for name, values in recorder.parts_ps().items()}
    times.sums["idle"] = parts_ps["idle"]
    assert parts_ps == times.sums
    assert sum(parts_ps.values()) == sum(recorder.windows["window"])
    assert min(min(recorder.windows[name]) for name in BOOKED_PARTS) >= 0
