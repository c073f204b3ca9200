"""Requests that follow several answers: as formats record it, and in kvsim's own."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.traces import Trace, TraceError, read_trace, write_trace
from kvsim.traces.adjust.select import sample, slice_rows

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9
OWN = "arrival_ns,prompt_tokens,output_tokens,after_request,delay_ns,also_after\n"


def awaited(trace: Trace) -> list[list[int]]:
    """What each request follows, ``after_request`` first."""
    assert trace.after_request is not None
    rows = [[row] if row >= 0 else [] for row in trace.after_request.tolist()]
    if trace.also_after is not None:
        bounds = trace.also_after.offsets.tolist()
        for row, (start, end) in enumerate(pairwise(bounds)):
            rows[row] += trace.also_after.requests[start:end].tolist()
    return rows


def call(t: float, took: float, **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "n", "in": 10, "out": 2, "hash_ids": [], "api_time": took, **more}


def agent(ended: float, took: float, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "subagent", "t": ended, "duration_ms": took * 1000, "requests": list(calls)}


def session(path: Path, *entries: dict[str, Any]) -> Trace:
    head = {"id": "s", "block_size": 64, "hash_id_scope": "local"}
    path.write_text(json.dumps({**head, "requests": entries}), "utf-8")
    return read_trace(path, session_starts="rate=1")


def test_a_request_follows_all_sub_agents_that_had_ended(tmp_path: Path) -> None:
    trace = session(
        tmp_path / "s.json",
        call(0, 1),
        agent(8, 6, call(0, 2), call(3, 3)),  # at 2 to 4, and 5 to 8
        agent(9, 5, call(0, 5)),  # at 4 to 9
        agent(30, 27, call(0, 27)),  # at 3 to 30: still runs
        call(10, 1),
    )
    assert trace.arrival_ns.tolist() == [0, 2 * S, 3 * S, 4 * S, 5 * S, 10 * S]
    assert awaited(trace) == [[], [0], [0], [0], [1], [3, 4]]
    assert trace.delay_ns is not None
    assert trace.delay_ns.tolist() == [0, S, 2 * S, 3 * S, S, S]
    assert trace.receipt is not None
    assert "1 request follows several outputs" in " ".join(trace.receipt.notes)


def test_a_request_follows_all_parallel_calls_that_had_ended(tmp_path: Path) -> None:
    trace = session(tmp_path / "s.json", call(0, 1), call(2, 3), call(3, 1), call(4, 9), call(6, 1))
    # that at 4 s followed the one that had just ended, and runs still at 6 s, when two had ended
    assert awaited(trace) == [[], [0], [0], [2], [1, 2]]
    back = session(tmp_path / "s.json", call(5, 1), call(0, 1), call(2, 2))
    assert awaited(back) == [[], [0], [1]], "the file's order is not that of time"
    side = session(tmp_path / "s.json", call(0, 1), call(2, 3), call(2.5, 3), call(7, 1))
    assert awaited(side) == [[], [0], [0], [2, 1]]


def test_parallel_rounds_of_tracelab(tmp_path: Path) -> None:
    spans = [("a", 0, 10), ("b", 12, 15), ("c", 13, 20), ("d", 25, 30)]
    lines = [
        {
            "session_id": "s",
            "round_id": name,
            "input_tokens_total": 32,
            "prefix_tokens": 0,
            "newly_append_tokens": 32,
            "output_tokens": 4,
            "timing_events": [{"timestamp": f"2026-06-01T05:40:{at:02}Z"} for at in span],
        }
        for name, *span in spans
    ]
    path = tmp_path / "rounds.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    trace = read_trace(path)
    assert awaited(trace) == [[], [0], [0], [2, 1]]
    assert trace.delay_ns is not None
    assert trace.delay_ns.tolist() == [0, 2 * S, 3 * S, 5 * S]


def test_spans_of_a_conversation_fan_in(tmp_path: Path) -> None:
    """As in inference-perf's ``fan_in_dependencies``: two side by side, then one."""
    spans = [
        {
            "span_id": name,
            "parent_span_id": None,
            "start_time": f"2026-02-25T10:00:{start:02}.000000",
            "end_time": f"2026-02-25T10:00:{end:02}.000000",
            "attributes": {
                "gen_ai.conversation.id": talk,
                "gen_ai.usage.input_tokens": 9,
                "gen_ai.usage.output_tokens": 2,
            },
        }
        for name, talk, start, end in (
            ("a", "t", 0, 2), ("b", "t", 3, 5), ("c", "t", 4, 6), ("x", "u", 5, 7), ("d", "t", 8, 9)
        )
    ]  # fmt: skip
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"spans": spans}), "utf-8")
    trace = read_trace(path)
    assert awaited(trace) == [[], [0], [0], [], [2, 1]]
    assert trace.delay_ns is not None
    assert trace.delay_ns.tolist() == [0, S, 2 * S, 0, 2 * S]


def test_parts_of_a_trace_keep_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{OWN}0,9,9,,,\n1,9,9,,,\n2,9,9,,,\n3,9,9,2,5,0 1\n4,9,9,,,\n", "utf-8")
    trace = read_trace(path)
    assert awaited(trace) == [[], [], [], [2, 0, 1], []]
    assert awaited(slice_rows(trace, 1, 4)) == [[], [], [1, 0]]
    assert slice_rows(trace, 3, 5).also_after is None
    drawn = {len(sample(trace, 1, np.random.default_rng(seed))) for seed in range(20)}
    assert drawn == {1, 4}, "what is tied together stays together"


def test_sorting_moves_predecessors_along(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{OWN}9,9,9,1,1,2\n0,9,9,,,\n4,9,9,,,\n", "utf-8")
    assert awaited(read_trace(path, sort=True)) == [[], [], [0, 1]]


def test_rows_that_are_left_out_are_waited_for_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{OWN}0,9,9,,,\n1,0,9,,,\n2,9,9,0,5,1\n3,9,9,1,5,0\n", "utf-8")
    assert awaited(read_trace(path, on_bad_row="skip")) == [[], [0], []]


def test_a_turn_that_follows_none_any_more_can_be_written(tmp_path: Path) -> None:
    path, again = tmp_path / "own.csv", tmp_path / "again.csv"
    head = "arrival_ns,prompt_tokens,output_tokens,after_request,delay_ns,has_time\n"
    path.write_text(f"{head}0,0,9,,,\n4,9,9,0,5,0\n", "utf-8")
    write_trace(read_trace(path, on_bad_row="skip"), again)
    trace = read_trace(again)
    assert (trace.has_time is None, awaited(trace)) == (False, [[]])
    assert trace.has_time is not None
    assert trace.has_time.all()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("3,9,9,0,,1", "also_after is 1, which is no earlier request"),
        ("3,9,9,0,,7", "also_after is 7, which is no earlier request"),
        ("3,9,9,0,,-1", "also_after is -1; allowed are rows from 0"),
        ("3,9,9,,,0", "also_after names rows, but after_request none"),
        ("3,9,9,0,,x", "also_after is 'x'; allowed are 64-bit whole numbers"),
        ("3,9,9,0,,99999999999999999999", "also_after is '99999999999999999999'; allowed are 64"),
    ],
)
def test_what_is_no_predecessor(tmp_path: Path, row: str, sentence: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{OWN}0,9,9,,,\n{row}\n", "utf-8")
    with pytest.raises(TraceError, match=f"line 3: {sentence}"):
        read_trace(path)
