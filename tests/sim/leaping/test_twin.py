"""The leaper against its specification, the stepper: equal in every integer they leave behind.

Random scenarios are small and tight: pools of a few blocks, prompts that go on where others end,
answers that end by a token nobody could foresee, costs with kinks.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.allocators import ContiguousAllocator, RadixAllocator
from kvsim.policies.eviction import AT_ADMISSIONS, EVICTION_KEYS
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.conformance.leap_log import STEPPER_ONLY, LeapLog
from kvsim.sim.conformance.random_scenario import (
    RandomScenario,
    radix_scenario,
    random_scenario,
    reserved_scenario,
)
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run
from tests.seeds import for_seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import StepInFlight
    from kvsim.sim.recording.recorder import Recorder


_COLUMNS = (
    "status",
    "first_scheduled_ps",
    "first_token_ps",
    "finish_ps",
    "output_tokens",
    "hit_tokens",
    "preemptions",
    "lost_tokens",
    "resume_hit_tokens",
    "stall_ps",
)
_NUMBERS = (
    "width_ps",
    "windows",
    "while_waiting",
    "waited_ps",
    "num_stalls",
    "longest_stall_ps",
    "num_steps",
    "num_steps_outside",
    "num_evicted_blocks",
    "num_preemptions",
    "peak_running",
    "refusals",
    "end_ps",
)
_GAPS = ("counts", "num", "sum_ps", "max_ps")


def left_behind(recorder: Recorder) -> dict[str, Any]:
    """Everything a run leaves, in plain values."""
    values: dict[str, Any] = {name: list(getattr(recorder, name)) for name in _COLUMNS}
    values |= {name: getattr(recorder, name) for name in _NUMBERS}
    series = recorder.gaps.over_time(recorder.width_ps, len(recorder.windows["window"]))
    by_window = {"gaps.by_window": series.counts.tolist(), "gaps.longest": series.max_ps.tolist()}
    values |= by_window | {"gaps.first_bin": series.first_bin}
    return values | {f"gaps.{name}": getattr(recorder.gaps, name) for name in _GAPS}


def assert_twins(scenario: RandomScenario, *, audit: bool = False) -> None:
    """Run both engines and compare what they leave; check the stepper's invariants by ``audit``."""
    trace, config, cost, max_tokens = scenario
    leapt = run(trace, config, cost, max_tokens=max_tokens, audit=True)
    stepped = run(trace, config, cost, max_tokens=max_tokens, audit=audit, step=True)
    assert (leapt.engine, stepped.engine) == ("leaper", "stepper")
    ours, theirs = left_behind(leapt.recorder), left_behind(stepped.recorder)
    for name, value in theirs.items():
        assert ours[name] == value, name


def promised_scenario(rnd: Random) -> RandomScenario:
    """All inputs of one run with a batching that never preempts."""
    scenario = random_scenario(rnd)
    config = scenario.config
    budget = max(config.max_num_batched_tokens, config.block_size)  # a chunk is whole blocks
    config = engine_config(config, batching__policy="no-evict", max_num_batched_tokens=budget)
    return scenario._replace(config=config)


MAKERS = [random_scenario, promised_scenario, reserved_scenario, radix_scenario]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@for_seeds(200)
def test_leaper_and_stepper_are_equal_in_every_integer(
    make: Callable[[Random], RandomScenario], seed: int
) -> None:
    assert_twins(make(Random(seed)))


# the last one: a head loses its hit within a leap of no-evict, and waits for another reason
@pytest.mark.parametrize("seed", [*range(40), 1979038])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_twins_on_fixed_seeds(make: Callable[[Random], RandomScenario], seed: int) -> None:
    assert_twins(make(Random(seed)), audit=True)


@for_seeds(100)
def test_unrolled_leaps_are_the_steppers_steps(seed: int) -> None:
    trace, config, cost, max_tokens = random_scenario(Random(seed))
    leaps, steps = LeapLog(trace), StepperLog(trace)
    run(trace, config, cost, max_tokens=max_tokens, leap_listener=leaps)
    run(trace, config, cost, max_tokens=max_tokens, listener=steps)
    assert len(leaps.records) == len(steps.records)
    for ours, theirs in zip(leaps.records, steps.records, strict=True):
        for field, value in theirs.items():
            if field not in STEPPER_ONLY:
                assert ours[field] == value, field


class Decisions(ScheduleListener):
    """A stepper's listener: who is served and admitted by each call, and what is free then."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        allocator = stepper.state.allocator
        assert isinstance(allocator, ContiguousAllocator)
        served = [
            [item.sequence.name, item.num_tokens, item.past, "D" if item.decodes else "P"]
            for item in step_in_flight.items
        ]
        admitted = [[a.sequence.name, 0, "new"] for a in step_in_flight.step.admitted]
        self.rows.append((served, admitted, allocator.placement.num_free))


@for_seeds(100)
def test_unrolled_leaps_over_reservations_are_the_steppers_steps(seed: int) -> None:
    trace, config, cost, max_tokens = reserved_scenario(Random(seed))
    leaps, steps = LeapLog(trace), Decisions()
    run(trace, config, cost, max_tokens=max_tokens, leap_listener=leaps)
    run(trace, config, cost, max_tokens=max_tokens, listener=steps)
    calls = [record for record in leaps.records if "sched" in record]
    fields = ("sched", "admitted", "free_after_schedule")
    assert [tuple(record[field] for field in fields) for record in calls] == steps.rows


def test_the_scenarios_are_tight() -> None:
    """Guard of the guards: preemptions, hits, duplicates and stop tokens do occur."""
    preemptions = hits = duplicates = unforeseen = 0
    for seed in range(150):
        trace, config, cost, max_tokens = random_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        preemptions += recorder.num_preemptions
        hits += sum(recorder.hit_tokens)
        duplicates += sum(recorder.windows["duplicate"]) > 0
        unforeseen += int((max_tokens > trace.output_tokens).sum())
    assert preemptions > 50
    assert hits > 1000
    assert duplicates > 10
    assert unforeseen > 500


def test_the_caches_are_tight() -> None:
    """Guard of the guards: evictions, hits and duplicates do occur, under every order."""
    seen = {name: [0, 0, 0] for name in AT_ADMISSIONS}
    for seed in range(400):
        trace, config, cost, max_tokens = random_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        counts = seen[config.eviction.policy]
        counts[0] += recorder.num_evicted_blocks
        counts[1] += sum(recorder.hit_tokens)
        counts[2] += sum(recorder.windows["duplicate"]) > 0
    for evicted, hits, duplicates in seen.values():
        assert evicted > 500
        assert hits > 100
        assert duplicates > 1


def test_the_reservations_are_tight() -> None:
    """Guard of the guards: holes, round-up, unfilled slots, stuck requests and waits do occur."""
    seen = dict.fromkeys(("hole", "padding", "never"), 0)
    waits = stuck = 0
    for seed in range(150):
        trace, config, cost, max_tokens = reserved_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        for name in seen:
            seen[name] += sum(recorder.windows[name]) > 0
        waits += any(recorder.waited_ps.values())
        stuck += any("even when nothing" in reason for reason in recorder.refusals.values())
    assert min(waits, *seen.values()) > 15, seen
    assert stuck > 5


class TreeDecisions(ScheduleListener):
    """A stepper's listener: who enters and leaves in each call, pages free and lost."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._num_evicted = 0

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        allocator = stepper.state.allocator
        assert isinstance(allocator, RadixAllocator)
        usage = allocator.usage(stepper.state.running)
        evicted, self._num_evicted = (
            allocator.num_evicted - self._num_evicted,
            allocator.num_evicted,
        )
        self.rows.append(
            (
                [
                    [a.sequence.name, a.hit_tokens, "resumed" if a.resumed else "new"]
                    for a in step_in_flight.step.admitted
                ],
                [[p.sequence.name, p.num_computed_tokens] for p in step_in_flight.step.preempted],
                (usage.blank + usage.cached) // allocator.page_size,
                evicted,
            )
        )


@for_seeds(100)
def test_unrolled_leaps_over_a_tree_are_the_steppers_steps(seed: int) -> None:
    trace, config, cost, max_tokens = radix_scenario(Random(seed))
    leaps, steps = LeapLog(trace), TreeDecisions()
    run(trace, config, cost, max_tokens=max_tokens, leap_listener=leaps)
    run(trace, config, cost, max_tokens=max_tokens, listener=steps)
    calls = [record for record in leaps.records if "sched" in record]
    fields = ("admitted", "preempted", "free_after_schedule", "evicted")
    assert [tuple(record[field] for field in fields) for record in calls] == steps.rows


def test_the_trees_are_tight() -> None:
    """Guard of the guards: evictions, preemptions and hits do occur, under every order."""
    seen = {name: [0, 0, 0] for name in EVICTION_KEYS}
    for seed in range(300):
        trace, config, cost, max_tokens = radix_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        counts = seen[config.eviction.policy]
        counts[0] += recorder.num_evicted_blocks
        counts[1] += recorder.num_preemptions
        counts[2] += sum(recorder.hit_tokens)
    for evicted, preemptions, hits in seen.values():
        assert evicted > 500
        assert preemptions > 2
        assert hits > 200


def test_an_arrival_is_seen_between_steps_of_no_length() -> None:
    config = SchedulerConfig(num_gpu_blocks=40, max_model_len=64, async_scheduling=True)
    columns = [np.array(values, dtype=np.int64) for values in ([0, 3], [10, 10], [20, 2])]
    trace = Trace("zero", columns[0], columns[1], columns[2])
    cost = LinearCost(0, per_prefill_token_ps=300)  # 10 tokens: 3 ns, then decodes for nothing
    assert_twins(RandomScenario(trace, config, cost, trace.output_tokens))
