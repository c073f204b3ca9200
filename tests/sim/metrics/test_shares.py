"""Byte primitives and states: exact sums, known answers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.metrics.shares import PRIMITIVES, VIEWS
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import Recorder

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace

MS = 10**9


def exact(values: dict[str, float]) -> Fraction:
    return sum((Fraction(str(value)) for value in values.values()), Fraction(0))


def test_primitives_of_a_known_run(three_requests: tuple[Trace, Recorder], pool: PoolShape) -> None:
    """100 ms: 64 blank, 16 cached, 10 empty, 16 duplicate, so 54 token slots of 160;
    210 ms of waiting: 32 blank, 20 empty of which 5 never fill, so 108 token slots.
    """
    _, recorder = three_requests
    slot_ms = pool.block_bytes * MS
    assert memory_shares.while_waiting(recorder, pool) == {
        "token": 108 * 210 * slot_ms,
        "duplicate": 0,
        "future": 15 * 210 * slot_ms,
        "never": 5 * 210 * slot_ms,
        "padding": 0,
        "hole": 0,
        "blocked": 32 * 210 * slot_ms,
        "cached": 0,
        "free": 0,
        "unusable": 1700 * 16 * 210 * MS,
    }
    parts = memory_shares.all_time(recorder, pool)
    assert parts["token"] == (54 * 100 + 108 * 210) * slot_ms
    assert parts["duplicate"] == 16 * 100 * slot_ms
    assert parts["future"] == (10 * 100 + 15 * 210) * slot_ms
    assert parts["free"] == 64 * 100 * slot_ms
    assert parts["blocked"] == 32 * 210 * slot_ms
    assert parts["cached"] == 16 * 100 * slot_ms
    assert sum(parts.values()) == pool.pool_bytes * 16 * 310 * MS


@pytest.mark.parametrize("view", VIEWS)
def test_views_take_every_primitive_once(view: str) -> None:
    assert sorted(part for held in VIEWS[view].values() for part in held) == sorted(PRIMITIVES)


def test_padding_and_holes_of_a_contiguous_pool() -> None:
    """100 slots over 10 ms: 30 free, 40 reserved and empty of which 8 never fill, 10 round-up;
    requests wait in the last 4 ms, where the free slots are holes in 3.
    """
    recorder = Recorder(1)
    for start, end, waits, hole in ((0, 6, False, 0), (6, 7, True, 0), (7, 10, True, 30)):
        recorder.set_waiting(start * MS, waits)
        recorder.interval(start * MS, end * MS, 30, 0, 40, 0, 1)
        recorder.contiguous(start * MS, end * MS, 10, hole)
    recorder.never(0, 10 * MS, 8)
    pool = PoolShape(100, 1, block_bytes=7, remainder_bytes=3, num_null_blocks=0)
    assert pool.pool_bytes == 703
    waiting = memory_shares.while_waiting(recorder, pool)
    slots = {"token": 20, "future": 32, "never": 8, "padding": 10}
    assert waiting == {
        **dict.fromkeys(PRIMITIVES, 0),
        **{name: 7 * 4 * MS * held for name, held in slots.items()},
        "hole": 7 * 3 * MS * 30,
        "blocked": 7 * MS * 30,
        "unusable": 3 * 4 * MS,
    }
    every = memory_shares.all_time(recorder, pool)
    assert sum(every.values()) == 703 * 10 * MS
    assert (every["hole"], every["blocked"]) == (waiting["hole"], waiting["blocked"])
    assert every["free"] == 7 * 6 * MS * 30
    assert memory_shares.states(waiting, "sosp23") == {
        "token": waiting["token"],
        "reserved": waiting["future"],
        "internal": waiting["never"],
        "external": 4 * MS * (7 * 40 + 3),
    }


@given(
    st.lists(
        st.tuples(st.integers(1, 10**12), *[st.integers(0, 40)] * 4, st.booleans()),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 10**6),
)
def test_shares_add_up_to_exactly_100(
    stretches: list[tuple[int, int, int, int, int, bool]], remainder: int
) -> None:
    pool = PoolShape(num_blocks=11, block_size=16, block_bytes=2**21, remainder_bytes=remainder)
    recorder, now = Recorder(1), 0
    for length, blank, cached, empty, duplicate, waits in stretches:
        recorder.set_waiting(now, waits)
        recorder.interval(now, now + length, blank, cached, empty, duplicate, 1)
        now += length
    for parts, window in (
        (memory_shares.all_time(recorder, pool), now),
        (memory_shares.while_waiting(recorder, pool), recorder.while_waiting["window"]),
    ):
        assert sum(parts.values()) == pool.pool_bytes * pool.block_size * window
        assert sum(memory_shares.states(parts).values()) == sum(parts.values())
        for shares in (
            memory_shares.percentages(parts),
            memory_shares.percentages(memory_shares.states(parts)),
        ):
            assert exact(shares) == (100 if window else 0)


def test_rounding_is_by_largest_remainder() -> None:
    thirds = memory_shares.percentages({"a": 1, "b": 1, "c": 1})
    assert thirds == {"a": 33.34, "b": 33.33, "c": 33.33}
    assert memory_shares.percentages({"a": 2, "b": 1}) == {"a": 66.67, "b": 33.33}
