"""Slices and samples of traces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import Trace, TraceError, bundled_path, read_trace
from kvsim.traces.adjust.select import groups_of, sample, slice_rows, slice_time, take


@pytest.fixture(scope="module")
def chat() -> Trace:
    return read_trace(bundled_path("chat-2k"), limit=300)


def rows_of(part: Trace, whole: Trace) -> list[int]:
    place = {whole.request_id(row): row for row in range(len(whole))}
    assert part.ids is not None
    return [place[name] for name in part.ids]


@given(st.sets(st.integers(0, 299), min_size=1))
def test_every_column_is_taken(chosen: set[int]) -> None:
    whole = read_trace(bundled_path("chat-2k"), limit=300)
    whole.user = [f"u{row % 7}" for row in range(len(whole))]
    rows = np.array(sorted(chosen))
    part = take(whole, rows)
    assert rows_of(part, whole) == rows.tolist()
    assert (part.arrival_ns == whole.arrival_ns[rows] - whole.arrival_ns[rows[0]]).all()
    assert (part.prompt_tokens == whole.prompt_tokens[rows]).all()
    assert part.max_tokens is not None
    assert whole.max_tokens is not None
    assert (part.max_tokens == whole.max_tokens[rows]).all()
    assert whole.session is not None
    assert part.session == [whole.session[row] for row in rows]
    assert part.user == [f"u{row % 7}" for row in rows]
    assert part.prefix is not None
    assert whole.prefix is not None
    ids = [part.prefix.ids[a:b].tolist() for a, b in pairwise(part.prefix.offsets.tolist())]
    bounds = whole.prefix.offsets.tolist()
    assert ids == [whole.prefix.ids[bounds[row] : bounds[row + 1]].tolist() for row in rows]
    assert part.after_request is not None
    assert whole.after_request is not None
    for place, before in enumerate(part.after_request.tolist()):
        wanted = int(whole.after_request[rows[place]])
        assert (rows[before] if before >= 0 else -1) == (wanted if wanted in chosen else -1)


def test_a_cut_turn_follows_nothing_and_has_its_own_time(chat: Trace) -> None:
    assert chat.after_request is not None
    child = int(np.flatnonzero(chat.after_request >= 0)[0])
    chat.has_time = np.arange(len(chat)) != child
    part = take(chat, np.array([child]))
    chat.has_time = None
    assert part.after_request is not None
    assert part.delay_ns is not None
    assert part.has_time is not None
    assert (part.after_request[0], part.delay_ns[0], part.has_time[0]) == (-1, 0, True)


def test_slices(chat: Trace) -> None:
    assert rows_of(slice_rows(chat, 10, 20), chat) == list(range(10, 20))
    assert len(slice_rows(chat, 290, None)) == 10
    first, end = 20_000_000_000, 40_000_000_000
    part = slice_time(chat, first, end)
    assert (
        rows_of(part, chat)
        == np.flatnonzero((chat.arrival_ns >= first) & (chat.arrival_ns < end)).tolist()
    )
    assert part.arrival_ns[0] == 0
    assert len(slice_time(chat, 0, None)) == len(chat)
    with pytest.raises(TraceError, match="has 300 requests, rows 300 to before 300"):
        slice_rows(chat, 300, None)
    with pytest.raises(TraceError, match="arrive from 0 s to"):
        slice_time(chat, 10**18, None)


def test_samples_keep_sessions_whole(chat: Trace) -> None:
    part = sample(chat, 60, np.random.default_rng(1))
    again = sample(chat, 60, np.random.default_rng(1))
    other = sample(chat, 60, np.random.default_rng(2))
    assert part.ids == again.ids != other.ids
    assert 60 <= len(part) < 90
    assert chat.session is not None
    assert part.session is not None
    for session in set(part.session):
        assert part.session.count(session) == chat.session.count(session)
    assert len(sample(chat, 10_000, np.random.default_rng(1))) == len(chat)
    with pytest.raises(TraceError, match="0 requests were asked for"):
        sample(chat, 0, np.random.default_rng(1))


def test_requests_that_follow_one_another_belong_together() -> None:
    ones = np.ones(6, dtype=np.int64)
    trace = Trace("t", np.arange(6), ones, ones)
    assert groups_of(trace).tolist() == [0, 1, 2, 3, 4, 5]
    trace.session = ["a", "", "b", "a", "", "c"]
    assert groups_of(trace).tolist() == [0, 1, 2, 0, 3, 4]
    trace.after_request = np.array([-1, -1, 1, -1, -1, 3])
    assert groups_of(trace).tolist() == [0, 1, 1, 0, 2, 0]
