"""Made-up traces: seeded, true to their laws, consistent in time and ids."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.traces import Trace, TraceError, read_trace, write_trace
from kvsim.traces.reading.drawn.arrivals import ArrivalRule
from kvsim.traces.reuse import measure_reuse
from kvsim.traces.synth.length_laws import Fixed, LogNormal, distance
from kvsim.traces.synth.presets import find_preset, rank_correlation
from kvsim.traces.synth.workload import Rhythm, Workload, make_up

if TYPE_CHECKING:
    from pathlib import Path

POISSON = ArrivalRule("poisson", 2.0)
PLAIN = Workload(4_000, POISSON, LogNormal(300, 1.0), LogNormal(120, 0.7))
TALK = replace(PLAIN, num_requests=600, mean_turns=4, system_tokens=(100, 1_000))
AGENTS = replace(TALK, sub_agents=2)


def parts(trace: Trace) -> list[list[int]]:
    assert trace.prefix is not None
    bounds = trace.prefix.offsets.tolist()
    return [trace.prefix.ids[a:b].tolist() for a, b in pairwise(bounds)]


@pytest.mark.parametrize("workload", [PLAIN, TALK, AGENTS])
def test_seeds_and_laws(workload: Workload) -> None:
    made, again, other = (make_up(workload, seed) for seed in (5, 5, 6))
    assert made.trace.arrival_ns.tolist() == again.trace.arrival_ns.tolist()
    assert made.trace.output_tokens.tolist() == again.trace.output_tokens.tolist()
    assert made.trace.output_tokens.tolist() != other.trace.output_tokens.tolist()
    assert len(made.trace) == workload.num_requests
    assert made.trace.arrival_ns[0] == 0
    assert (np.diff(made.trace.arrival_ns) >= 0).all()
    bound = 1.95 / workload.num_requests**0.5  # 99.9 % of true samples
    assert distance(made.text_tokens, workload.prompt) < bound
    assert distance(made.trace.output_tokens, workload.output) < bound


def test_single_requests_have_neither_ids_nor_sessions() -> None:
    trace = make_up(PLAIN, 1).trace
    assert trace.prefix is None
    assert trace.session is None
    assert trace.user is None
    gaps = np.diff(trace.arrival_ns) / 1e9
    assert gaps.mean() == pytest.approx(0.5, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("workload", [PLAIN, TALK])
def test_users_own_sessions_and_change_nothing_else(workload: Workload) -> None:
    """Of 3 users at a skew of 1 the first starts 6 of 11 sessions, the last 2."""
    plain = make_up(workload, 5).trace
    trace = make_up(replace(workload, num_users=3, user_skew=1), 5).trace
    assert trace.arrival_ns.tolist() == plain.arrival_ns.tolist()
    assert trace.prompt_tokens.tolist() == plain.prompt_tokens.tolist()
    assert trace.session == plain.session
    assert trace.user is not None
    sessions = trace.session or [str(row) for row in range(len(trace))]
    owners = dict(zip(sessions, trace.user, strict=True))
    assert trace.user == [owners[session] for session in sessions]
    counts = [list(owners.values()).count(f"u{number}") for number in range(3)]
    assert sum(counts) == len(owners)
    deviation = (len(owners) * 6 / 11 * 5 / 11) ** 0.5
    assert counts[0] == pytest.approx(len(owners) * 6 / 11, abs=4 * deviation)
    assert counts[0] > counts[1] > counts[2]


def test_presets_keep_their_rank_correlation() -> None:
    preset = find_preset("lmsys")
    workload = replace(
        PLAIN, prompt=preset.prompt, output=preset.output, rank_correlation=preset.rank_correlation
    )
    trace = make_up(workload, 3).trace
    found = rank_correlation(trace.prompt_tokens, trace.output_tokens)
    assert found == pytest.approx(preset.rank_correlation, abs=0.05)


@pytest.mark.parametrize("workload", [TALK, AGENTS])
def test_turns_follow_and_repeat(workload: Workload) -> None:
    trace = make_up(workload, 2).trace
    assert trace.after_request is not None
    assert trace.session is not None
    assert trace.delay_ns is not None
    ids = parts(trace)
    step = round(workload.answer_s_per_token * 1e9)
    for row, before in enumerate(trace.after_request.tolist()):
        known = int(trace.prompt_tokens[row] + trace.output_tokens[row])
        assert len(ids[row]) == -(-known // workload.block_tokens)
        if before < 0:
            continue
        assert before < row
        assert trace.session[row] == trace.session[before]
        end = int(trace.arrival_ns[before] + trace.output_tokens[before] * step)
        assert int(trace.arrival_ns[row]) == end + int(trace.delay_ns[row])
    if not workload.sub_agents:
        for row, before in enumerate(trace.after_request.tolist()):
            if before >= 0:
                assert ids[row][: len(ids[before])] == ids[before]
                assert trace.prompt_tokens[row] > trace.prompt_tokens[before]


def test_agents_run_side_by_side() -> None:
    trace = make_up(AGENTS, 2).trace
    assert trace.after_request is not None
    children = np.bincount(trace.after_request[trace.after_request >= 0])
    assert children.max() == AGENTS.sub_agents
    assert (np.diff(np.sort(trace.arrival_ns)) == 0).any()  # both start as the answer ends


def test_system_prompts_are_all_that_sessions_share() -> None:
    workload = replace(PLAIN, num_requests=300, system_tokens=(500,))
    trace = make_up(workload, 4).trace
    ceiling = measure_reuse(trace).ceiling
    assert ceiling.blocks_in_leading_run == 299 * (500 // 16)
    assert (trace.prompt_tokens > 500).all()


def test_conversations_end_at_the_longest_context() -> None:
    short = replace(TALK, system_tokens=(100,), prompt=Fixed(100), output=Fixed(100))
    workload = replace(short, mean_turns=50, max_context=999)
    trace = make_up(workload, 4).trace
    assert trace.prompt_tokens.max() == 1_000  # 900 said, and a new text


def test_it_is_written_and_read_again(tmp_path: Path) -> None:
    trace = make_up(AGENTS, 7).trace
    write_trace(trace, tmp_path / "x.jsonl")
    again = read_trace(tmp_path / "x.jsonl")
    assert again.arrival_ns.tolist() == trace.arrival_ns.tolist()
    assert parts(again) == parts(trace)


def test_a_day_has_its_rhythm() -> None:
    workload = replace(PLAIN, num_requests=20_000, rhythm=Rhythm(0.8, 1_000.0))
    times_s = make_up(workload, 1).trace.arrival_ns / 1e9
    phase = times_s[times_s < 9_000] % 1_000
    counts = np.histogram(phase, bins=[0, 250, 500, 750, 1_000])[0]
    # the mean of 1 - a cos over a quarter is 1 -+ 2 a / pi
    low, high = 1 - 1.6 / np.pi, 1 + 1.6 / np.pi
    assert counts / counts.mean() == pytest.approx([low, high, high, low], rel=0.05)
    assert Rhythm(0).warp(np.array([0, 5, 9])).tolist() == [0, 5, 9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_requests": 0}, "num_requests is 0; allowed are 1 to 1e"),
        ({"mean_turns": 0.5}, "mean_turns is 0.5"),
        ({"sub_agents": -1}, "sub_agents is -1"),
        ({"block_tokens": 0}, "block_tokens is 0"),
        ({"system_tokens": (0,)}, "shortest system prompt is 0"),
    ],
)
def test_impossible_workloads(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        replace(PLAIN, **changes)  # type: ignore[arg-type]


def test_impossible_rhythms() -> None:
    with pytest.raises(TraceError, match="amplitude 2 and period 86400 s"):
        Rhythm(2)
    with pytest.raises(TraceError, match="period 0 s"):
        Rhythm(0.5, 0)
