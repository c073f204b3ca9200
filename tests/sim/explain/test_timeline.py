"""What requests went through: slices that add up, and are the same from both engines."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.conformance.random_scenario import radix_scenario, random_scenario, reserved_scenario
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.explain.timeline import NOT_DRAWN, Moment, Slice, Timeline, Track, chosen
from kvsim.sim.recording.recorder import FINISHED, REFUSED
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.adjust.patience import with_timeout
from kvsim.traces.trace.trace import Trace
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.random_scenario import RandomScenario
    from kvsim.sim.recording.recorder import Recorder

MS = 10**9
COST = LinearCost(base_ps=10 * MS)  # every step lasts 10 ms


def tiny(arrival_ms: list[int], prompts: list[int], outputs: list[int]) -> Trace:
    return Trace(
        name="tiny",
        arrival_ns=np.array(arrival_ms, dtype=np.int64) * 10**6,
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        sha256="0" * 64,
    )


def engine(num_blocks: int, *, block_size: int = 1, budget: int = 8) -> SchedulerConfig:
    return SchedulerConfig(
        block_size=block_size,
        num_gpu_blocks=num_blocks + 1,
        max_num_batched_tokens=budget,
        max_num_seqs=4,
        max_model_len=64,
        enable_prefix_caching=False,
        async_scheduling=False,
    )


def observed(trace: Trace, config: SchedulerConfig, *, step: bool = False) -> Timeline:
    timeline = Timeline()
    max_tokens = trace.output_tokens
    run(trace, config, COST, max_tokens=max_tokens, step=step, observers=[timeline])
    return timeline


def assert_adds_up(track: Track, recorder: Recorder) -> None:
    """Slices follow each other without a gap, from arrival to the end."""
    status, at_ps = recorder.status[track.index], track.arrival_ps
    for one in track.slices:
        assert one.start_ps == at_ps, one
        assert one.end_ps > one.start_ps, one
        at_ps = one.end_ps
    names = [moment.name for moment in track.moments]
    if status == FINISHED:
        assert at_ps == recorder.finish_ps[track.index]
        assert names == ["first token", "finish"]
        assert track.moments[0].at_ps == recorder.first_token_ps[track.index]
    elif status == REFUSED:
        assert names[-1].startswith("refusal: ")


@pytest.mark.parametrize("step", [False, True])
def test_two_requests_by_hand(step: bool) -> None:
    """The second one waits for blocks, and for the end of a step.

    Call 1 at 0 serves request 0 (6 tokens of 8 blocks). Request 1 comes at 5 ms and is too long
    (4 tokens) until request 0 ends at 30 ms.
    """
    timeline = observed(tiny([0, 5], [6, 4], [3, 2]), engine(8), step=step)
    first, second = timeline.tracks[0], timeline.tracks[1]
    assert first.slices == [
        Slice("prefill", 0, 10 * MS, {"tokens": 6, "computed_before": 0}),
        Slice("decode", 10 * MS, 30 * MS, {"tokens": 2}),
    ]
    assert first.moments == [
        Moment("first token", 10 * MS, {}),
        Moment("finish", 30 * MS, {"output_tokens": 3, "hit_tokens": 0}),
    ]
    assert second.slices == [
        Slice("queued", 5 * MS, 30 * MS, {"step": 5 * MS, "blocks": 20 * MS}),
        Slice("prefill", 30 * MS, 40 * MS, {"tokens": 4, "computed_before": 0}),
        Slice("decode", 40 * MS, 50 * MS, {"tokens": 1}),
    ]


@pytest.mark.parametrize("step", [False, True])
def test_a_victim_by_hand(step: bool) -> None:
    """Two of 3 tokens share 8 blocks: at the fourth call both want a fifth one, one gives way."""
    timeline = observed(tiny([0, 0], [3, 3], [4, 4]), engine(8), step=step)
    assert [one.kind for one in timeline.tracks[0].slices] == ["prefill", "decode"]
    victim = timeline.tracks[1].slices
    kinds = [one.kind for one in victim]
    assert kinds == ["prefill", "decode", "preempted", "prefill", "decode"]
    assert victim[1].details == {"tokens": 1}
    assert victim[2] == Slice("preempted", 20 * MS, 40 * MS, {"blocks": 20 * MS})
    assert victim[3].details == {"tokens": 5, "computed_before": 0}


def test_chunks_of_a_long_prompt() -> None:
    timeline = observed(tiny([0], [20], [1]), engine(32))
    chunks = [(one.kind, one.details["tokens"]) for one in timeline.tracks[0].slices]
    assert chunks == [("prefill", 8), ("prefill", 8), ("prefill", 4)]


def twins(scenario: RandomScenario) -> int:
    """Compare both engines; number of slices."""
    trace, config, cost, max_tokens = scenario
    leapt, stepped = Timeline(), Timeline()
    run(trace, config, cost, max_tokens=max_tokens, observers=[leapt])
    found = run(trace, config, cost, max_tokens=max_tokens, step=True, observers=[stepped])
    assert leapt.tracks.keys() == stepped.tracks.keys()
    for index, track in stepped.tracks.items():
        assert leapt.tracks[index].slices == track.slices, index
        assert leapt.tracks[index].moments == track.moments, index
        assert_adds_up(track, found.recorder)
    return sum(len(track.slices) for track in stepped.tracks.values())


@pytest.mark.parametrize("make", [random_scenario, reserved_scenario, radix_scenario])
def test_both_engines_tell_the_same(make: Callable[[Random], RandomScenario]) -> None:
    assert sum(twins(make(Random(seed))) for seed in range(40)) > 1000


@pytest.mark.parametrize("mode", ["swap", "recompute"])
def test_victims_on_the_host_are_swapped(mode: str) -> None:
    timeline = Timeline()
    scenario = Scenario.load("vllm-v0").with_values(
        {
            "engine.num_gpu_blocks_override": 200,
            "engine.max_model_len": 1000,
            "preemption.mode": mode,
        }
    )
    found = simulate(tiny([0] * 12, [200] * 12, [400] * 12), scenario, observers=[timeline])
    kinds = {one.kind for track in timeline.tracks.values() for one in track.slices}
    assert ("swapped" in kinds, "preempted" in kinds) == (mode == "swap", mode == "recompute")
    for track in timeline.tracks.values():
        assert_adds_up(track, found.engine.recorder)


def test_who_gives_up_ends_at_the_boundary_that_tells_the_engine() -> None:
    trace = with_timeout(tiny([0, 0], [6, 6], [3, 30]), "95ms")
    timeline = observed(trace, engine(64))
    last = timeline.tracks[1]
    assert last.moments[-1] == Moment("abort", 100 * MS, {})
    assert last.slices[-1].end_ps == 100 * MS


def test_who_never_fits_is_refused_at_once() -> None:
    timeline = observed(tiny([3], [40], [3]), engine(8))
    track = timeline.tracks[0]
    assert track.slices == []
    assert track.moments[0].name.startswith("refusal: ")
    assert track.moments[0].at_ps == 3 * MS


def test_samples_are_tracks_of_their_own() -> None:
    trace = replace(tiny([0, 1], [6, 4], [3, 2]), num_samples=np.array([1, 3]))
    timeline = observed(trace, engine(64))
    assert timeline.trace is not None
    names = [timeline.trace.request_id(index) for index in timeline.tracks]
    assert names == ["r0000", "0_r0001", "1_r0001", "2_r0001"]


def test_chosen_are_evenly_spread() -> None:
    assert list(chosen(3, 5)) == [0, 1, 2]
    assert list(chosen(10, 5)) == [0, 2, 4, 6, 8]
    assert list(chosen(10, 3)) == [0, 3, 6]
    assert not list(chosen(10, 0))


def test_a_request_of_many_slices_ends_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvsim.sim.explain.timeline.MAX_SLICES", 16)
    timeline = observed(tiny([0], [40 * 8], [3]), replace(engine(500), max_model_len=400))
    slices = timeline.tracks[0].slices
    assert [one.kind for one in slices] == ["prefill"] * 16 + [NOT_DRAWN]
    assert slices[-1].end_ps == timeline.tracks[0].moments[-1].at_ps == 420 * MS
