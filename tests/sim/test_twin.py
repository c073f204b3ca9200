"""The leaper against its specification, the stepper: equal in every integer they leave behind.

Random scenarios are small and tight: pools of a few blocks, prompts that go on where others end,
answers that end by a token nobody could foresee, costs with kinks.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost import LinearCost
from kvsim.sim.driver import run
from kvsim.sim.leap_log import STEPPER_ONLY, LeapLog
from kvsim.sim.profile import MeasuredRanges
from kvsim.sim.profile_cost import GroupAttention, ProfileCost, TokenCost
from kvsim.sim.stepper_log import StepperLog
from kvsim.traces.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.cost import StepCost
    from kvsim.sim.recorder import Recorder


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
    )


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
            prefill_past=(0, rnd.randint(0, 90)),
            mixed_decodes=(1, rnd.randint(1, 9)),
        ),
    )


def make_scenario(rnd: Random) -> TwinScenario:
    """All inputs of one run; half of the answers end by a token nobody could foresee."""
    config = make_config(rnd)
    trace = make_trace(rnd, config)
    max_tokens = [
        rnd.choice([output, output, output + 1, output + 7, config.max_model_len])
        for output in trace.output_tokens.tolist()
    ]
    cost = make_cost(rnd, overlap=config.async_scheduling)
    return TwinScenario(trace, config, cost, np.array(max_tokens, dtype=np.int64))


scenarios = st.randoms(use_true_random=False).map(make_scenario)


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


@pytest.mark.parametrize("seed", range(0, 100, 5))
def test_twins_on_fixed_seeds(seed: int) -> None:
    for one in range(seed, seed + 5):
        assert_twins(make_scenario(Random(one)))


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


def test_an_arrival_is_seen_between_steps_of_no_length() -> None:
    config = SchedulerConfig(num_gpu_blocks=40, max_model_len=64, async_scheduling=True)
    columns = [np.array(values, dtype=np.int64) for values in ([0, 3], [10, 10], [20, 2])]
    trace = Trace("zero", columns[0], columns[1], columns[2])
    cost = LinearCost(0, per_prefill_token_ps=300)  # 10 tokens: 3 ns, then decodes for nothing
    assert_twins(TwinScenario(trace, config, cost, trace.output_tokens))
