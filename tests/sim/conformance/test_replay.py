"""What a comparison looks at: every fact of a log, changed once, is found where it was changed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.sim.conformance.schedule_replay import Comparison, replay, short
from kvsim.sim.conformance.vllm_log import GoldenLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.difference import Difference
    from kvsim.traces import Trace

    Recorded = Callable[[str], tuple[GoldenLog, Trace]]

AT = 30
"""The step that is changed."""


def compare(log: GoldenLog, trace: Trace) -> Difference:
    difference = replay(log, trace, step=True).difference
    assert difference is not None
    return difference


def copied(log: GoldenLog) -> GoldenLog:
    return GoldenLog(
        log.path,
        copy.deepcopy(log.header),
        list(log.records),
        list(log.requests),
        copy.deepcopy(log.summary),
    )


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, dict):
        return {**value, "added": 1}
    if isinstance(value, list):
        return [*value, "added"]
    return value + ("!" if isinstance(value, str) else 1)


FIELDS = (
    *("i", "t0", "t1", "arrived", "sched", "admitted", "preempted", "finished"),
    *("free_after_schedule", "free_after_update", "running", "waiting", "cached_blocks"),
    *("evicted", "alloc", "evicted_ids", "ts", "dropped", "late", "rejected"),
)


ASYNC_ONLY = ("ts", "dropped", "late")


@pytest.mark.parametrize(
    ("name", "field"),
    [("async_micro", field) for field in FIELDS]
    + [("micro", field) for field in FIELDS if field not in ASYNC_ONLY],
)
def test_each_field_of_a_step(name: str, field: str, recorded: Recorded) -> None:
    log, trace = recorded(name)
    log = copied(log)
    log.records[AT] = {**log.records[AT], field: changed(log.records[AT].get(field, []))}
    difference = compare(log, trace)
    if field != "i":
        assert difference.place == f"step {AT}"
    assert [row[0] for row in difference.fields] == [field]
    assert difference.before[-1].startswith(f"step {AT - 1} ")


def test_every_field_of_the_logs_is_tried(recorded: Recorded) -> None:
    seen = {
        key
        for name in ("micro", "async_micro", "toolong")
        for r in recorded(name)[0].records
        for key in r
    }
    assert seen - {"type", "ids"} == set(FIELDS)


@pytest.mark.parametrize("name", ["micro", "async_micro"])
def test_each_field_of_requests_and_summary(name: str, recorded: Recorded) -> None:
    log, trace = recorded(name)
    for field, value in log.requests[2].items():
        if field == "type":
            continue
        other = copied(log)
        other.requests[2] = {**log.requests[2], field: changed(value)}
        assert compare(other, trace).field == field
    for field, value in log.summary.items():
        if field == "type":
            continue
        other = copied(log)
        other.summary[field] = changed(value)
        difference = compare(other, trace)
        assert (difference.place, difference.field) == ("the summary", field)


def test_who_gave_up_is_compared_but_not_tokens_thrown_away_for_it(recorded: Recorded) -> None:
    log, trace = recorded("x65009")
    name = log.summary["aborted"][1][1]
    at = next(n for n, record in enumerate(log.records) if name in record["dropped"])
    other = copied(log)
    other.records[at] = {**log.records[at], "dropped": []}
    other.summary["dropped_tokens"] += 1
    assert replay(other, trace, step=True).difference is None
    other.records[at] = {**log.records[at], "dropped": [name, "somebody"]}
    assert compare(other, trace).field == "dropped"
    other = copied(log)
    other.summary["aborted"][1][0] += 1
    assert compare(other, trace).field == "aborted"
    del other.summary["aborted"][1]
    assert compare(other, trace).field in {"dropped", "aborted"}


def test_records_more_or_fewer_than_ours(recorded: Recorded) -> None:
    log, trace = recorded("micro")
    shorter, longer = copied(log), copied(log)
    del shorter.records[-1]
    longer.records.append({**log.records[-1], "i": 59})
    assert compare(shorter, trace).fields == [("type", "end of the steps", "step")]
    assert compare(shorter, trace).place == "the end of the steps"
    assert compare(longer, trace).fields == [("type", "step", "end of the steps")]
    assert compare(longer, trace).place == "step 59"


def test_requests_fewer_than_ours(recorded: Recorded) -> None:
    log, trace = recorded("micro")
    fewer = copied(log)
    del fewer.requests[-1]
    assert compare(fewer, trace).fields == [("number", 5, 6)]


@pytest.mark.parametrize("name", ["toolong", "async_toolong"])
def test_rejected_requests_are_compared(name: str, recorded: Recorded) -> None:
    log, trace = recorded(name)
    alone = 1  # the second of two lines at the start
    assert [record["type"] for record in log.records[:3]] == ["rejected", "rejected", "step"]
    other = copied(log)
    other.records[alone] = {**log.records[alone], "ids": ["r9999"]}
    assert compare(other, trace).field == "ids"
    other = copied(log)
    del other.records[alone]
    assert compare(other, trace).field == "type"
    with_step = next(
        n
        for n, record in enumerate(log.records)
        if record["type"] == "step" and record.get("rejected")
    )
    other = copied(log)
    other.records[with_step] = {k: v for k, v in log.records[with_step].items() if k != "rejected"}
    assert compare(other, trace).field == "rejected"


def test_what_an_engine_cannot_tell_is_left_out(recorded: Recorded) -> None:
    log, _ = recorded("micro")
    ours = {**log.records[0], "alloc": {}, "evicted_ids": [7], "t1": 5}
    with pytest.raises(Exception, match="step 0"):
        Comparison(log, without=("alloc", "evicted_ids")).called(ours)
    Comparison(log, without=("alloc", "evicted_ids", "t1")).called(ours)


def test_a_record_in_one_line(recorded: Recorded) -> None:
    log, _ = recorded("micro")
    assert short(log.records[0]) == (
        "step 0 t0=0 t1=6192100: 3 sequences, 73 tokens +r0000 +r0001 +r0002"
    )
    assert short({"type": "rejected", "t0": 5, "ids": ["a", "b"]}) == "rejected t0=5: a b"
    many = {**log.records[0], "finished": ["a", "b", "c", "d"]}
    assert short(many).endswith("finished a finished b finished c ...")
