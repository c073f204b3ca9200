"""Equal times spread over their grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import Trace, read_trace, spread_ties

DATA = Path(__file__).parents[2] / "data"


def make_trace(times: list[int]) -> Trace:
    ones = np.ones(len(times), dtype=np.int64)
    return Trace("t", np.array(times, dtype=np.int64), ones, ones)


def test_evenly_over_the_grid_in_file_order() -> None:
    trace = make_trace([0, 0, 0, 300, 600, 600])
    assert spread_ties(trace).arrival_ns.tolist() == [0, 100, 200, 300, 600, 750]
    assert trace.arrival_ns.tolist() == [0, 0, 0, 300, 600, 600]


@pytest.mark.parametrize("times", [[0, 5, 9], [4, 4, 4], [7]])
def test_nothing_to_spread(times: list[int]) -> None:
    trace = make_trace(times)
    assert spread_ties(trace) is trace


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.integers(1, 1000))
def test_order_is_kept_and_nobody_moves_a_tick(ticks: list[int], grid: int) -> None:
    trace = make_trace([tick * grid for tick in sorted(ticks)])
    spread = spread_ties(trace).arrival_ns
    assert (np.diff(spread) >= 0).all()
    moved = spread - trace.arrival_ns
    assert (moved >= 0).all()
    later = trace.arrival_ns[
        np.searchsorted(trace.arrival_ns, trace.arrival_ns, "right") % len(ticks)
    ]
    assert ((spread < later) | (later <= trace.arrival_ns)).all()


def test_receipt_has_the_new_times() -> None:
    trace = spread_ties(read_trace(DATA / "fleet_sim.csv"))
    assert trace.arrival_ns.tolist() == [0, 6_000_000, 12_000_000]
    assert trace.receipt is not None
    assert (trace.receipt.num_distinct_times, trace.receipt.time_grid_ns) == (3, 6_000_000)
    assert trace.receipt.notes[-1] == (
        "2 requests with equal times spread over 12 ms (--spread-ties)"
    )
