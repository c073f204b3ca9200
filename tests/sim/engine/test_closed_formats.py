"""Sessions of every format, replayed open and closed: who comes when, and who is never sent."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.sim import simulate
from kvsim.sim.recording.recorder import ABORTED, FINISHED, NOT_SENT, REFUSED
from kvsim.traces import TraceError, read_trace

if TYPE_CHECKING:
    from kvsim.sim.run.run import Run

DATA = Path(__file__).parents[2] / "data"
PS = 1000
READING: dict[str, dict[str, Any]] = {
    "kv_cache_tester.jsonl": {"session_starts": "rate=0.5", "on_bad_row": "skip"},
    "tracelab.csv": {},
    "tracelab_no_times.csv": {"session_starts": "rate=0.5"},
    "tracelab_rounds.jsonl": {},
    "bailian.jsonl": {},
    "aiperf_sessions.jsonl": {},
    "aiperf_export.jsonl": {"on_bad_row": "skip"},
    "burstgpt_2.csv": {},
    "otel.json": {"on_bad_row": "skip"},
}
"""Formats whose requests follow one another, and what their miniatures need to be read."""
NO_THINK_TIMES = {"bailian.jsonl"}


def check_follow_ons(run: Run) -> int:
    """Each request that waits comes its delay after the answer; returns how many do."""
    recorder = run.engine.recorder
    assert recorder.arrival_ps is not None
    assert set(recorder.status) == {FINISHED}
    parents = [-1] * len(run.trace) if run.loop is None else run.loop.parent.tolist()
    awaited = defaultdict[int, list[int]](list)
    if run.loop is not None:
        for waiting, answer in np.stack(run.loop.pairs(), axis=1).tolist():
            awaited[waiting].append(answer)
    for index, parent in enumerate(parents):
        if parent < 0:
            assert recorder.arrival_ps[index] == run.trace.arrival_ns[index] * PS
        else:
            assert run.loop is not None
            last_ps = max(recorder.finish_ps[before] for before in awaited[index])
            due_ps = last_ps + int(run.loop.delay_ns[index]) * PS
            assert recorder.arrival_ps[index] == due_ps
    return sum(parent >= 0 for parent in parents)


@pytest.mark.parametrize("file", READING)
def test_recorded_times_stay_open(file: str) -> None:
    """Only turns without a time of their own wait, without being asked to."""
    run = simulate(read_trace(DATA / file, **READING[file]))
    timed = run.trace.has_time
    assert check_follow_ons(run) == (0 if timed is None else int((~timed).sum()))


@pytest.mark.parametrize("file", READING)
def test_every_turn_waits_in_a_closed_loop(file: str) -> None:
    trace = read_trace(DATA / file, **READING[file])
    think = "2s" if file in NO_THINK_TIMES else None
    assert trace.after_request is not None
    following = int((trace.after_request >= 0).sum())
    if not following:
        with pytest.raises(TraceError, match="needs turns that follow one another"):
            simulate(trace, closed=True)
        return
    run = simulate(trace, closed=True, think_time=think)
    assert check_follow_ons(run) == following
    note = run.summary.notes[-1]
    assert note.startswith(f"closed loop: {following} of {len(trace)} requests wait")


def test_think_times_that_are_not_recorded_are_asked_for() -> None:
    with pytest.raises(TraceError, match=r"wait for an output .* give --think-time"):
        simulate(read_trace(DATA / "bailian.jsonl"), closed=True)


def test_scaled_rates_keep_think_times_in_closed_loops() -> None:
    trace = read_trace(DATA / "tracelab.csv")
    runs = [simulate(trace, closed=True, rate_scale=scale) for scale in (1, 2)]
    for run in runs:
        check_follow_ons(run)
    for one, other in zip(*(run.trace.arrival_ns.tolist() for run in runs), strict=True):
        assert other == one // 2
    assert runs[0].loop is not None
    assert runs[1].loop is not None
    assert runs[0].loop.delay_ns.tolist() == runs[1].loop.delay_ns.tolist()
    opened = simulate(read_trace(DATA / "bailian.jsonl"), rate_scale=2)
    note = opened.summary.notes[-1]
    assert "divides the times between the turns of a session, too" in note


@pytest.mark.parametrize("file", ["vidur_lengths.csv", "llmperf.json", "kv_cache_tester.jsonl"])
def test_users_need_no_times(file: str) -> None:
    with pytest.raises(TraceError, match="closed loop with kvsim simulate --users N"):
        read_trace(DATA / file, on_bad_row="skip")
    trace = read_trace(DATA / file, on_bad_row="skip", need_times=False)
    run = simulate(trace, num_users=1)
    assert set(run.engine.recorder.status) == {FINISHED}


def test_who_gives_up_is_counted_and_asks_for_nothing_more(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    columns = "arrival_ns,prompt_tokens,output_tokens,timeout_ns,after_request,delay_ns"
    rows = ["0,100,500,1000000000,,", "0,100,50,,,", "5000000000,700,10,,0,1000"]
    file.write_text("\n".join([columns, *rows, ""]))
    opened, closed = simulate(file), simulate(file, closed=True, audit=True)
    hasty = simulate(file, timeout="1ms")
    assert list(hasty.engine.recorder.status) == [ABORTED, ABORTED, ABORTED]
    assert hasty.options.timeout == "1ms"
    assert list(opened.engine.recorder.status) == [ABORTED, FINISHED, FINISHED]
    assert list(closed.engine.recorder.status) == [ABORTED, FINISHED, NOT_SENT]
    counts = closed.summary.requests
    assert (counts.finished, counts.aborted, counts.not_sent) == (1, 1, 1)


def test_public_sessions_open_and_closed(shared: Path) -> None:
    """Prompts above the model's length are refused, and end their session where turns wait."""
    file = shared / "traces/kv-cache-tester/traces_dev.jsonl.gz"
    trace = read_trace(file, session_starts="poisson(rate=0.01)", on_bad_row="skip", limit=1500)
    too_long = int((trace.prompt_tokens >= 131_072).sum())
    recorded = simulate(trace).engine.recorder
    assert list(recorded.status).count(REFUSED) == too_long > 100
    assert list(recorded.status).count(NOT_SENT) == 0
    with pytest.raises(TraceError, match=r"turns wait for an output \(first: .* give --think-time"):
        simulate(trace, closed=True)
    run = simulate(trace, closed=True, think_time="5s")
    status = list(run.engine.recorder.status)
    requests = run.summary.requests
    assert 0 < requests.refused < too_long
    assert requests.not_sent == status.count(NOT_SENT) > 0
    assert requests.finished + requests.refused + requests.not_sent == len(trace)
    assert requests.refused_ids[0] in {trace.request_id(i) for i in range(len(trace))}
    never = run.requests["arrival_s"].isna().tolist()
    assert never == [code == NOT_SENT for code in status]
    assert run.loop is not None
    for index, parent in enumerate(run.loop.parent.tolist()):
        if parent >= 0:
            ended = status[parent] in (REFUSED, NOT_SENT)
            assert (status[index] == NOT_SENT) == ended
