"""Overtaking against a count by hand and by brute force; who counts as waiting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.metrics.request_columns import RequestColumns
from kvsim.sim.metrics.waiting import STARVED_AFTER, overtaken, summarise_waiting
from kvsim.sim.recording.recorder import Recorder
from kvsim.traces.trace.trace import Trace

S = 10**12


def counted(rows: list[tuple[int, int, bool]]) -> list[int]:
    arrival = np.array([row[0] for row in rows], dtype=np.int64)
    start = np.array([row[1] for row in rows], dtype=np.int64)
    entered = np.array([row[2] for row in rows], dtype=np.bool_)
    return list(map(int, overtaken(arrival, start, entered)))


def test_who_came_later_and_entered_before() -> None:
    rows = [(0, 9, True), (1, 3, True), (2, 5, True), (3, 5, True), (4, 4, True)]
    assert counted(rows) == [4, 0, 1, 1, 0]  # those that enter together pass nobody


def test_equal_arrivals_do_not_overtake() -> None:
    assert counted([(0, 9, True), (0, 3, True), (1, 8, True)]) == [1, 0, 0]


def test_one_that_never_entered_is_passed_but_passes_nobody() -> None:
    assert counted([(0, 9, True), (1, 6, False), (2, 5, True), (3, 7, True)]) == [2, 1, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), st.booleans()), max_size=40))
def test_overtaken_is_the_brute_force_count(rows: list[tuple[int, int, bool]]) -> None:
    assert counted(rows) == [
        sum(other > arrival and theirs < start and entered for other, theirs, entered in rows)
        for arrival, start, _ in rows
    ]


def summary_of(num: int, starts_s: dict[int, int], **ends_s: int) -> dict[str, object]:
    """Requests one second apart: who enters when; ``aborted_3=9``: who gave up when."""
    recorder = Recorder(num)
    for index, start_s in starts_s.items():
        recorder.admitted(index, start_s * S, 0, resumed=False)
    for name, end_s in ends_s.items():
        recorder.aborted(int(name.removeprefix("aborted_")), end_s * S)
    trace = Trace("tiny", np.arange(num) * 10**9, np.full(num, 5), np.full(num, 5))
    return summarise_waiting(RequestColumns.of(trace, recorder), 50 * S)


def test_the_longest_wait_counts_those_that_never_got_in() -> None:
    assert summary_of(2, {0: 7, 1: 9})["longest_wait_s"] == 8
    assert summary_of(2, {0: 7}, aborted_1=31)["longest_wait_s"] == 30
    assert summary_of(2, {0: 7})["longest_wait_s"] == 49  # still waiting at the end


def test_starved_is_passed_by_more_than_a_hundred() -> None:
    num = STARVED_AFTER + 3
    starts = {index: index for index in range(2, num)} | {1: 500, 0: 400}
    summary = summary_of(num, starts)
    assert summary["most_overtaken"] == num - 2
    assert (summary["starved"], summary["starved_after"]) == (2, STARVED_AFTER)
    assert summary["starved_percent"] == pytest.approx(200 / num)
    del starts[num - 1]
    assert summary_of(num, starts)["starved"] == 0


def test_nobody_waited() -> None:
    assert summary_of(0, {}) == {
        "longest_wait_s": 0.0,
        "most_overtaken": 0,
        "starved_after": STARVED_AFTER,
        "starved": 0,
        "starved_percent": None,
    }
