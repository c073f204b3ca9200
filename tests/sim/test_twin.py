"""The leaper against its specification, the stepper: equal in every integer they leave behind.

Random scenarios are small and tight: pools of a few blocks, prompts that go on where others end,
answers that end by a token nobody could foresee, costs with kinks.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.policies.allocators import ContiguousAllocator, RadixAllocator
from kvsim.policies.eviction import AT_ADMISSIONS, EVICTION_KEYS
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost import LinearCost
from kvsim.sim.driver import run
from kvsim.sim.leap_log import STEPPER_ONLY, LeapLog
from kvsim.sim.profile import MeasuredRanges
from kvsim.sim.profile_cost import GroupAttention, ProfileCost, TokenCost
from kvsim.sim.stepper_log import StepperLog
from kvsim.traces.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kvsim.sim.cost import StepCost
    from kvsim.sim.recorder import Recorder
    from kvsim.sim.stepper import Flight, Stepper


class TwinScenario(NamedTuple):
    """Inputs of one run."""

    trace: Trace
    config: SchedulerConfig
    cost: StepCost
    max_tokens: NDArray[np.int64]


def make_config(rnd: Random) -> SchedulerConfig:
    """A small engine, most of the time too small for its requests."""
    block_size = rnd.choice([1, 2, 4, 16])
    max_model_len = rnd.choice([32, 64, 128, 200])
    most_blocks = max(3, rnd.choice([1, 2, 4, 10]) * max_model_len // block_size)
    seats = rnd.choice([1, 2, 3, 8, 32])
    return SchedulerConfig(
        block_size=block_size,
        num_gpu_blocks=rnd.randint(2, most_blocks) + 1,
        max_num_batched_tokens=max(seats, rnd.choice([1, 3, 8, 16, 64, 300])),
        max_num_seqs=seats,
        max_model_len=max_model_len,
        enable_prefix_caching=rnd.random() < 0.8,
        watermark=rnd.choice([0.0, 0.0, 0.05, 0.3]),
        scheduler_reserve_full_isl=rnd.random() < 0.7,
        async_scheduling=rnd.random() < 0.5,
        batching=rnd.choice(["mixed-running-first"] * 3 + ["iteration-level"]),
        **make_eviction(rnd),
    )


def make_reserved_config(rnd: Random) -> SchedulerConfig:
    """The same with contiguous reservations, in pools that rarely hold two of the longest."""
    config = make_config(rnd)
    return replace(
        config,
        allocator="contiguous",
        reservation=rnd.choice(["max", "pow2", "oracle"]),
        placement=rnd.choice(["buddy", "first-fit", "best-fit"]),
        block_size=1,
        num_gpu_blocks=rnd.randint(2, rnd.choice([1, 2, 4, 10]) * config.max_model_len + 2),
        enable_prefix_caching=False,
        watermark=0.0,
    )


def make_radix_config(rnd: Random) -> SchedulerConfig:
    """The same with a radix tree."""
    return replace(
        make_config(rnd),
        enable_prefix_caching=True,
        prefix="radix",
        eviction=rnd.choice(sorted(EVICTION_KEYS)),
        eviction_capacity=None,
    )


def make_eviction(rnd: Random) -> dict[str, Any]:
    """Half of the time one of the other orders that can be leapt, or a cap on the cache."""
    if rnd.random() < 0.5:
        return {}
    return {
        "eviction": rnd.choice(sorted(AT_ADMISSIONS)),
        "eviction_capacity": rnd.choice([None, None, 0, 2, 7]),
    }


def make_ids(rnd: Random, lengths: list[int]) -> list[list[int]]:
    """Ids of requests of so many blocks: shared prefixes, earlier requests gone on with, fresh."""
    common = [[100 + rnd.randrange(3) for _ in range(200)] for _ in range(3)]
    fresh = iter(range(1000, 10**9))
    made: list[list[int]] = []
    for length in lengths:
        base: list[int] = []
        kind = rnd.random()
        if kind < 0.4:
            base = common[rnd.randrange(3)][: rnd.randint(0, length)]
        elif kind < 0.8 and made:
            base = rnd.choice(made)
            base = base[: min(length, len(base) if rnd.random() < 0.5 else rnd.randint(0, length))]
        made.append(base + [next(fresh) for _ in range(length - len(base))])
    return made


def make_trace(rnd: Random, config: SchedulerConfig) -> Trace:
    """Up to 40 requests, many at once, some too long for the engine."""
    arrivals, prompts, outputs = [], [], []
    now_ns, gap_ns = 0, rnd.choice([0, 1, 5, 20, 100, 1000])
    for _ in range(rnd.randint(1, 40)):
        now_ns += rnd.randint(0, gap_ns) if rnd.random() < 0.7 else 0
        longest = min(rnd.choice([3, 10, 40, config.max_model_len + 3]), config.max_model_len + 2)
        prompt = rnd.randint(1, longest)
        if rnd.random() < 0.3:  # ends with a block
            prompt = max(1, prompt // config.block_size * config.block_size)
        arrivals.append(now_ns)
        prompts.append(prompt)
        outputs.append(rnd.randint(1, rnd.choice([1, 3, 20, 60])))
    prefix = None
    if rnd.random() < 0.85:
        id_tokens = rnd.choice([config.block_size, config.block_size * 2, 1])
        covers_output = rnd.random() < 0.7
        totals = [p + o if covers_output else p for p, o in zip(prompts, outputs, strict=True)]
        ids = make_ids(rnd, [-(-total // id_tokens) for total in totals])
        offsets = np.cumsum([0, *map(len, ids)])
        flat = np.array([value for one in ids for value in one], dtype=np.int64)
        prefix = PrefixIds(id_tokens, offsets, flat, covers_output=covers_output)
    columns = [np.array(values, dtype=np.int64) for values in (arrivals, prompts, outputs)]
    return Trace("twin", columns[0], columns[1], columns[2], prefix=prefix)


def make_cost(rnd: Random, *, overlap: bool) -> StepCost:
    """Linear, or the calibrated form with its kinks and edges."""
    if rnd.random() < 0.6:
        return LinearCost(
            rnd.choice([0, 1000, 5000]),
            rnd.choice([0, 300]),
            rnd.choice([0, 70]),
            rnd.choice([0, 1, 13]),
        )
    attention = GroupAttention(*(rnd.randint(0, 40) for _ in range(10)))
    pieces = tuple((rnd.randint(0, 3000), rnd.randint(0, 90)) for _ in range(2))
    return ProfileCost(
        name="random",
        overlap=overlap,
        host_ps=rnd.randint(0, 9000),
        host_per_request_ps=rnd.randint(0, 50),
        gemm=TokenCost(pieces),
        all_reduce=TokenCost(((0, 0),)),
        attention=(attention,),
        head_ps=rnd.randint(0, 500),
        head_per_request_ps=rnd.randint(0, 50),
        measured=MeasuredRanges(
            batch=(1, rnd.randint(1, 20)),
            total_context=(1, rnd.randint(1, 900)),
            step_tokens=(1, rnd.randint(1, 40)),
            prefill_tokens=(1, 100),
        ),
    )


def make_scenario(
    rnd: Random, config_of: Callable[[Random], SchedulerConfig] = make_config
) -> TwinScenario:
    """All inputs of one run; half of the answers end by a token nobody could foresee."""
    config = config_of(rnd)
    trace = make_trace(rnd, config)
    max_tokens = [
        rnd.choice([output, output, output + 1, output + 7, config.max_model_len])
        for output in trace.output_tokens.tolist()
    ]
    cost = make_cost(rnd, overlap=config.async_scheduling)
    return TwinScenario(trace, config, cost, np.array(max_tokens, dtype=np.int64))


def make_reserved_scenario(rnd: Random) -> TwinScenario:
    """All inputs of one run with reservations."""
    return make_scenario(rnd, make_reserved_config)


def make_radix_scenario(rnd: Random) -> TwinScenario:
    """All inputs of one run with a radix tree."""
    scenario = make_scenario(rnd, make_radix_config)
    priority = np.array([rnd.randrange(3) for _ in range(len(scenario.trace))])
    return scenario._replace(trace=replace(scenario.trace, priority=priority))


scenarios = st.randoms(use_true_random=False).map(make_scenario)
reserved_scenarios = st.randoms(use_true_random=False).map(make_reserved_scenario)
radix_scenarios = st.randoms(use_true_random=False).map(make_radix_scenario)


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
    "refusals",
    "end_ps",
)
_GAPS = ("counts", "num", "sum_ps", "max_ps")


def left_behind(recorder: Recorder) -> dict[str, Any]:
    """Everything a run leaves, in plain values."""
    values: dict[str, Any] = {name: list(getattr(recorder, name)) for name in _COLUMNS}
    values |= {name: getattr(recorder, name) for name in _NUMBERS}
    return values | {f"gaps.{name}": getattr(recorder.gaps, name) for name in _GAPS}


def assert_twins(scenario: TwinScenario) -> None:
    """Run both engines with all invariants checked and compare what they leave."""
    trace, config, cost, max_tokens = scenario
    leapt = run(trace, config, cost, max_tokens=max_tokens, audit=True)
    stepped = run(trace, config, cost, max_tokens=max_tokens, audit=True, step=True)
    assert (leapt.engine, stepped.engine) == ("leaper", "stepper")
    ours, theirs = left_behind(leapt.recorder), left_behind(stepped.recorder)
    for name, value in theirs.items():
        assert ours[name] == value, name


@given(scenarios)
@settings(max_examples=max(200, settings().max_examples))
def test_leaper_and_stepper_are_equal_in_every_integer(scenario: TwinScenario) -> None:
    assert_twins(scenario)


@given(reserved_scenarios)
@settings(max_examples=max(200, settings().max_examples))
def test_leaps_over_reservations_are_equal_in_every_integer(scenario: TwinScenario) -> None:
    assert_twins(scenario)


@given(radix_scenarios)
@settings(max_examples=max(200, settings().max_examples))
def test_leaps_over_a_radix_tree_are_equal_in_every_integer(scenario: TwinScenario) -> None:
    assert_twins(scenario)


@pytest.mark.parametrize("seed", range(0, 100, 5))
def test_twins_on_fixed_seeds(seed: int) -> None:
    for one in range(seed, seed + 5):
        assert_twins(make_scenario(Random(one)))
        assert_twins(make_reserved_scenario(Random(one)))
        assert_twins(make_radix_scenario(Random(one)))


@given(scenarios)
@settings(max_examples=100)
def test_unrolled_leaps_are_the_steppers_steps(scenario: TwinScenario) -> None:
    trace, config, cost, max_tokens = scenario
    leaps, steps = LeapLog(trace), StepperLog(trace)
    run(trace, config, cost, max_tokens=max_tokens, leap_listener=leaps)
    run(trace, config, cost, max_tokens=max_tokens, listener=steps)
    assert len(leaps.records) == len(steps.records)
    for ours, theirs in zip(leaps.records, steps.records, strict=True):
        for field, value in theirs.items():
            if field not in STEPPER_ONLY:
                assert ours[field] == value, field


class Decisions:
    """A stepper's listener: who is served and admitted by each call, and what is free then."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def called(self, stepper: Stepper, flight: Flight) -> None:
        allocator = stepper.state.allocator
        assert isinstance(allocator, ContiguousAllocator)
        served = [
            [item.sequence.name, item.num_tokens, item.past, "D" if item.decodes else "P"]
            for item in flight.items
        ]
        admitted = [[a.sequence.name, 0, "new"] for a in flight.step.admitted]
        self.rows.append((served, admitted, allocator.placement.num_free))

    def applied(self, *_results: object) -> None:
        pass


@given(reserved_scenarios)
@settings(max_examples=100)
def test_unrolled_leaps_over_reservations_are_the_steppers_steps(scenario: TwinScenario) -> None:
    trace, config, cost, max_tokens = scenario
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
        trace, config, cost, max_tokens = make_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        preemptions += recorder.num_preemptions
        hits += sum(recorder.hit_tokens)
        duplicates += sum(recorder.windows["duplicate"]) > 0
        unforeseen += int((max_tokens > trace.output_tokens).sum())
    assert preemptions > 50
    assert hits > 1000
    assert duplicates > 10
    assert unforeseen > 500


def test_the_reservations_are_tight() -> None:
    """Guard of the guards: holes, round-up, unfilled slots, stuck requests and waits do occur."""
    seen = dict.fromkeys(("hole", "padding", "never", "waiting"), 0)
    stuck = 0
    for seed in range(150):
        trace, config, cost, max_tokens = make_reserved_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        for name in seen:
            seen[name] += sum(recorder.windows[name]) > 0
        stuck += any("even when nothing" in reason for reason in recorder.refusals.values())
    assert min(seen.values()) > 15, seen
    assert stuck > 5


class TreeDecisions:
    """A stepper's listener: who enters and leaves in each call, pages free and lost."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._num_evicted = 0

    def called(self, stepper: Stepper, flight: Flight) -> None:
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
                    for a in flight.step.admitted
                ],
                [[p.sequence.name, p.lost_tokens] for p in flight.step.preempted],
                (usage.blank + usage.cached) // allocator.page_size,
                evicted,
            )
        )

    def applied(self, *_results: object) -> None:
        pass


@given(radix_scenarios)
@settings(max_examples=100)
def test_unrolled_leaps_over_a_tree_are_the_steppers_steps(scenario: TwinScenario) -> None:
    trace, config, cost, max_tokens = scenario
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
        trace, config, cost, max_tokens = make_radix_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        counts = seen[config.eviction]
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
    assert_twins(TwinScenario(trace, config, cost, trace.output_tokens))
