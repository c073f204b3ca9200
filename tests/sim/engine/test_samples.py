"""Samples as requests of their own: what they share, and rows made of them again."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.conformance.random_scenario import RandomScenario, random_scenario
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.samples import Samples
from kvsim.sim.recording.recorder import ABORTED, FINISHED, REFUSED, UNFINISHED, Recorder
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run
from tests.seeds import for_seeds
from tests.sim.leaping.test_twin import left_behind

if TYPE_CHECKING:
    from kvsim.sim.documents.summary import Summary

CONFIG = SchedulerConfig(block_size=4, num_gpu_blocks=101, max_model_len=64)
MS = 10**9


def make_trace(*rows: tuple[int, int, int], prefix: PrefixIds | None = None) -> Trace:
    """Rows of prompt, output and samples; all arrive at 0."""
    prompts, outputs, samples = np.array(rows, dtype=np.int64).T
    zeros = np.zeros(len(rows), np.int64)
    return Trace("samples", zeros, prompts, outputs, num_samples=samples, prefix=prefix)


def expanded(trace: Trace, config: SchedulerConfig = CONFIG) -> Samples:
    samples = Samples.of(trace, config)
    assert samples is not None
    return samples


def ids_of(prefix: PrefixIds | None, index: int) -> list[int]:
    assert prefix is not None
    return [int(one) for one in prefix.ids[prefix.offsets[index] : prefix.offsets[index + 1]]]


def test_a_trace_of_single_answers_stays_as_it_is() -> None:
    assert Samples.of(make_trace((5, 3, 1)), CONFIG) is None
    assert (
        Samples.of(make_trace((5, 3, 4)), engine_config(CONFIG, allocator__samples="group")) is None
    )


def test_samples_arrive_together_and_get_one_prompt() -> None:
    samples = expanded(make_trace((5, 3, 1), (10, 7, 3), (2, 1, 1)))
    trace = samples.trace
    assert samples.row.tolist() == [0, 1, 1, 1, 2]
    assert samples.first.tolist() == [0, 1, 4]
    assert trace.prompt_tokens.tolist() == [5, 10, 10, 10, 2]
    assert trace.output_tokens.tolist() == [3, 7, 7, 7, 1]
    assert trace.ids == ["r0000", "0_r0001", "1_r0001", "2_r0001", "r0002"]
    assert trace.session == ["r0000", "r0001", "r0001", "r0001", "r0002"]
    assert ids_of(trace.prefix, 0) == [] == ids_of(trace.prefix, 4)
    assert ids_of(trace.prefix, 1) == ids_of(trace.prefix, 2) == ids_of(trace.prefix, 3)
    assert len(ids_of(trace.prefix, 1)) == 3


def test_samples_are_their_rows_users() -> None:
    trace = make_trace((5, 3, 1), (10, 7, 2), (2, 1, 2))
    trace.user = ["ann", "bob", ""]
    several = expanded(trace).trace
    askers = [several.asker(index) for index in range(len(several))]
    assert askers == ["ann", "bob", "bob", "r0002", "r0002"]


def test_recorded_ids_stay_and_new_ones_are_nobody_elses() -> None:
    prefix = PrefixIds(4, np.array([0, 3, 3]), np.array([0, 1, 7]))
    trace = expanded(make_trace((10, 3, 2), (8, 3, 2), prefix=prefix)).trace
    assert ids_of(trace.prefix, 0) == ids_of(trace.prefix, 1) == [0, 1, 7]
    assert ids_of(trace.prefix, 2) == ids_of(trace.prefix, 3) == [2, 3]


def test_the_answers_ids_belong_to_the_first_sample() -> None:
    """A later turn hits the answer that it goes on from; the other sample's is not the same."""
    prefix = PrefixIds(4, np.array([0, 4, 9]), np.array([1, 2, 3, 4, 1, 2, 3, 4, 5]), True)
    trace = make_trace((8, 8, 2), (17, 3, 1), prefix=prefix)
    trace = replace(trace, arrival_ns=np.array([0, 10**9]))
    both = [
        run(trace, CONFIG, LinearCost(MS), max_tokens=trace.output_tokens, step=step).recorder
        for step in (False, True)
    ]
    assert left_behind(both[0]) == left_behind(both[1])
    assert list(both[0].hit_tokens) == [4, 12]  # 8 - 1 tokens of the prompt; 15 are computed
    # the prompt's last block twice, as the last token is always computed; no block of the answer
    assert sum(both[0].windows["duplicate"]) == 4 * 8 * MS


def test_samples_hit_the_first_ones_full_blocks_in_the_same_step() -> None:
    trace = make_trace((10, 5, 3))
    recorder = run(
        trace, CONFIG, LinearCost(MS), max_tokens=trace.output_tokens, step=True
    ).recorder
    assert list(recorder.hit_tokens) == [16]
    assert list(recorder.num_prompts or ()) == [3]
    assert list(recorder.first_scheduled_ps) == [0]
    assert list(recorder.first_token_ps) == [MS]
    assert list(recorder.finish_ps) == [5 * MS]
    assert (list(recorder.output_tokens), list(recorder.further_tokens)) == ([5], [10])
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    assert totals["shared"] == 2 * 8 * 5 * MS  # two blocks thrice, all along


def test_without_a_cache_nothing_is_shared() -> None:
    trace = make_trace((10, 5, 3))
    config = replace(CONFIG, enable_prefix_caching=False)
    recorder = run(trace, config, LinearCost(MS), max_tokens=trace.output_tokens).recorder
    assert sum(recorder.windows["shared"]) == 0
    assert list(recorder.finish_ps) == [5 * MS]


def test_a_row_is_what_its_samples_are_together() -> None:
    samples = expanded(make_trace((5, 9, 2), (5, 9, 1), (5, 9, 3), (5, 9, 2)))
    recorder = Recorder(8)
    recorder.arrival_ps = np.zeros(8, np.int64).data.cast("B").cast("q")
    recorder.status[:] = type(recorder.status)(
        "b", [FINISHED, FINISHED, FINISHED, ABORTED, REFUSED, FINISHED, FINISHED, UNFINISHED]
    )
    for name, values in {
        "first_scheduled_ps": [5, 3, 4, 6, -1, 2, 7, -1],
        "first_token_ps": [8, 9, 9, -1, -1, 5, 9, -1],
        "finish_ps": [20, 30, 40, 33, -1, 44, 50, -1],
        "stall_ps": [1, 2, 3, 4, 0, 6, 7, 0],
    }.items():
        getattr(recorder, name)[:] = type(recorder.stall_ps)("q", values)
    for name, values in {
        "output_tokens": [9, 9, 9, 0, 0, 9, 9, 0],
        "hit_tokens": [0, 4, 0, 0, 0, 4, 4, 0],
    }.items():
        getattr(recorder, name)[:] = type(recorder.output_tokens)("i", values)
    recorder.refusals = {4: "too long"}
    rows = samples.fold(recorder)
    assert list(rows.status) == [FINISHED, FINISHED, REFUSED, UNFINISHED]
    assert list(rows.first_scheduled_ps) == [3, 4, 2, 7]
    assert list(rows.first_token_ps) == [8, 9, 5, 9]
    assert list(rows.finish_ps) == [30, 40, 44, -1]
    assert list(rows.output_tokens) == [9, 9, 9, 9]
    assert list(rows.further_tokens) == [9, 0, 0, 0]
    assert list(rows.hit_tokens) == [4, 0, 4, 4]
    assert list(rows.stall_ps) == [3, 3, 10, 7]
    assert list(rows.num_prompts or ()) == [2, 1, 2, 1]
    assert rows.refusals == {2: "too long"}
    assert len(rows.arrival_ps or ()) == 4


def with_samples(scenario: RandomScenario, rnd: Random) -> RandomScenario:
    counts = [rnd.choice([1, 1, 2, 3]) for _ in range(len(scenario.trace))]
    return scenario._replace(
        trace=replace(scenario.trace, num_samples=np.array(counts, dtype=np.int64))
    )


@for_seeds(60)
def test_both_engines_leave_the_same_rows(seed: int) -> None:
    rnd = Random(seed)
    trace, config, cost, max_tokens = with_samples(random_scenario(rnd), rnd)
    leapt = run(trace, config, cost, max_tokens=max_tokens, audit=True)
    stepped = run(trace, config, cost, max_tokens=max_tokens, audit=True, step=True)
    assert (leapt.engine, stepped.engine) == ("leaper", "stepper")
    ours, theirs = left_behind(leapt.recorder), left_behind(stepped.recorder)
    assert ours == theirs
    for name in ("further_tokens", "num_prompts"):
        assert getattr(leapt.recorder, name) == getattr(stepped.recorder, name)
    assert len(leapt.recorder.status) == len(trace)


SMALL: dict[str, object] = {
    "engine.num_gpu_blocks_override": 101,
    "engine.max_model_len": 512,
    "engine.max_num_batched_tokens": 512,
    "cost.source": "linear",
    "cost.base": "1ms",
}


def summary(trace: Trace, preset: str = "vllm-0.32", **values: object) -> Summary:
    scenario = Scenario.load(preset).with_values(SMALL | values)
    return simulate(trace, scenario).summary


def test_the_summary_counts_rows_prompts_and_all_tokens() -> None:
    found = summary(make_trace((32, 5, 3), (32, 5, 1)))
    assert found.requests.total == found.requests.finished == 2
    assert found.throughput.output_tokens == 20
    assert found.throughput.total_tokens == 20 + 4 * 32
    assert found.cache.prompt_tokens == 128
    assert found.cache.hit_tokens == 32
    assert found.latency.tpot_s.num == 2
    assert found.latency.tpot_s.max == pytest.approx(1e-3)
    note = "1 request asks for several outputs, all with the length in the trace: each sample is"
    assert any(text.startswith(note) for text in found.notes)


def test_groups_of_the_v0_engine_compute_a_prompt_once() -> None:
    found = summary(make_trace((40, 5, 3)), "vllm-v0")
    assert found.cache.prompt_tokens == 40
    assert found.throughput.output_tokens == 15
    sharing = found.memory.all_time.sharing
    physical, logical = 3 + 4 * 5, 3 + 4 * 9  # 2.5 blocks of prompt; the open one is copied twice
    assert sharing.factor == pytest.approx(logical / physical)
    assert sharing.savings_percent == pytest.approx(100 * (1 - physical / logical))
    assert found.copy_on_write.blocks == 2
    assert found.copy_on_write.copy_s == 0


BEAMS = replace(make_trace((40, 5, 1)), num_samples=None, beam_width=np.array([2]))


@pytest.mark.parametrize(
    ("preset", "values", "says"),
    [
        ("vllm-v0", {"engine.enable_prefix_caching": True}, "with a prefix cache"),
        ("vllm-v0", {"preemption.mode": "recompute"}, "'recompute' is not one of 'swap'"),
        ("vllm-v0", {"preemption.mode": "auto"}, "'auto' is not one of 'swap'"),
        (
            "vllm-v0",
            {"engine.kv_groups": [16], "batching.policy": "iteration-level"},
            "windows or several",
        ),
        ("tgi", {"allocator.samples": "group"}, "'token-budget' counts every request as one"),
        (
            "sglang-0.5",
            {
                "allocator.samples": "group",
                "allocator.prefix": "none",
                "engine.enable_prefix_caching": False,
            },
            "'new-token-ratio' counts every",
        ),
        (
            "vllm-0.32",
            {"allocator.samples": "group", "engine.enable_prefix_caching": False},
            "with a step in flight",
        ),
        (
            "orca-max",
            {"allocator.samples": "group", "engine.num_gpu_blocks_override": "none"},
            "not of 'contiguous'",
        ),
        (
            "vllm-v0",
            {
                "batching.policy": "iteration-level",
                "batching.reserve_predicted_output": True,
                "predictor.kind": "quantile",
            },
            "reserve_predicted_output counts every request",
        ),
    ],
)
def test_what_groups_cannot_be_combined_with(
    preset: str, values: dict[str, object], says: str
) -> None:
    unset: dict[str, object] = {}
    if preset == "orca-max" or "batching.policy" in values:  # no token budget
        unset = {"engine.max_num_batched_tokens": "none"}
    with pytest.raises(ValueError, match=says):
        summary(make_trace((40, 5, 2)), preset, **(unset | values))
    summary(make_trace((40, 5, 1)), preset, **(unset | values))


def test_requests_have_no_beams_and_nobody_waits_for_several() -> None:
    with pytest.raises(ValueError, match="'requests' has no beams"):
        summary(BEAMS)
    with pytest.raises(ValueError, match="by both num_samples and beam_width"):
        summary(replace(BEAMS, num_samples=np.array([2])), "vllm-v0")
    with pytest.raises(ValueError, match=r"20,000,001 in all: .* takes at most 10,000,000"):
        summary(make_trace((40, 5, 1), (40, 5, 20_000_000)))
    two = make_trace((40, 5, 1), (40, 5, 2))
    two = replace(two, after_request=np.array([-1, 0]), delay_ns=np.array([-1, 5]))
    with pytest.raises(ValueError, match="whoever waits for several is not simulated"):
        simulate(two, Scenario.load().with_values(SMALL), closed=True)
    found = simulate(two, Scenario.load("vllm-v0").with_values(SMALL), closed=True).summary
    assert found.requests.finished == 2
