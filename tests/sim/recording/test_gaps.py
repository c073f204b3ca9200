"""Runs of gaps fill the bins as their steps would, and quantiles are within half a percent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.recording.gaps import GapHistogram
from kvsim.sim.recording.time_windows import FIRST_WIDTH_PS, MAX_WINDOWS

MICROSECOND_PS = 10**6
WIDTH_PS = FIRST_WIDTH_PS


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**14),  # start: up to 100 s
            st.integers(0, 10**11),  # first gap: up to 0.1 s
            st.integers(0, 10**8),
            st.integers(1, 60),
            st.integers(1, 300),
        ),
        max_size=6,
    )
)
def test_a_run_equals_its_steps_one_by_one(runs: list[tuple[int, int, int, int, int]]) -> None:
    by_run, by_step = GapHistogram(), GapHistogram()
    ends: list[tuple[int, int, int]] = []
    for start_ps, first_ps, slope_ps, num_steps, weight in runs:
        by_run.add_run(start_ps, first_ps, slope_ps, num_steps, weight)
        for step in range(num_steps):
            gap_ps = first_ps + slope_ps * step
            start_ps += gap_ps  # noqa: PLW2901 - the next gap begins where this one ends
            ends.append((start_ps, gap_ps, weight))
    for end in ends:
        by_step.add(*end)
    assert by_run.counts == by_step.counts
    assert (by_run.num, by_run.sum_ps, by_run.max_ps) == (
        by_step.num,
        by_step.sum_ps,
        by_step.max_ps,
    )
    width_ps = WIDTH_PS
    while any(end_ps > width_ps * MAX_WINDOWS for end_ps, *_ in ends):
        width_ps *= 2
    ours, theirs = (one.over_time(width_ps, MAX_WINDOWS) for one in (by_run, by_step))
    assert ours.first_bin == theirs.first_bin
    assert (ours.counts == theirs.counts).all()
    longest = np.zeros(MAX_WINDOWS, dtype=np.int64)
    num = np.zeros(MAX_WINDOWS, dtype=np.int64)
    for end_ps, gap_ps, weight in ends:
        window = max(end_ps - 1, 0) // width_ps
        longest[window] = max(longest[window], gap_ps)
        num[window] += weight
    assert (ours.max_ps == longest).all()
    assert (ours.num == num).all()


@given(
    st.lists(st.integers(MICROSECOND_PS, 10**15), min_size=1, max_size=200),
    st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_within_half_a_percent(gaps: list[int], q: float) -> None:
    histogram = GapHistogram()
    for gap_ps in gaps:
        histogram.add(gap_ps, gap_ps, 1)
    exact = sorted(gaps)[max(math.ceil(q * len(gaps)) - 1, 0)]
    # the upper edge of a bin is rounded down, hence a bin may be a hair wider than 1 %
    assert histogram.quantile_ps(q) == pytest.approx(exact, rel=0.00501)


def test_mean_and_maximum_are_exact() -> None:
    gaps = np.random.default_rng(1).integers(1, 10**12, 500).tolist()
    histogram = GapHistogram()
    for gap_ps in gaps:
        histogram.add(gap_ps, gap_ps, 3)
    assert histogram.num == 1500
    assert histogram.mean_ps() == sum(gaps) / 500
    assert histogram.max_ps == max(gaps)


def test_the_largest_gap_bounds_the_last_bin() -> None:
    histogram = GapHistogram()
    histogram.add(10**9, 10**9, 1)
    assert histogram.quantile_ps(1.0) <= 10**9


def test_without_samples_there_is_no_number() -> None:
    histogram = GapHistogram()
    assert math.isnan(histogram.mean_ps())
    assert math.isnan(histogram.quantile_ps(0.5))


def test_a_course_has_quantiles_of_each_stretch_and_nan_where_no_gap_ends() -> None:
    histogram = GapHistogram()
    for end_ps, gap_ps in ((1, 10**9), (WIDTH_PS, 3 * 10**9), (3 * WIDTH_PS + 1, 5 * 10**9)):
        histogram.add(end_ps, gap_ps, 1)
    series = histogram.over_time(WIDTH_PS, 4)
    assert series.num.tolist() == [2, 0, 0, 1]
    assert series.max_ps.tolist() == [3 * 10**9, 0, 0, 5 * 10**9]
    assert series.quantiles_ps(0.5) == pytest.approx(
        [10**9, np.nan, np.nan, 5 * 10**9], rel=0.005, nan_ok=True
    )
    assert series.quantiles_ps(0)[0] == pytest.approx(10**9, rel=0.005)
    merged = histogram.over_time(2 * WIDTH_PS, 2, stride=2)
    assert merged.num.tolist() == [3]
    assert merged.quantiles_ps(1.0) == pytest.approx([5 * 10**9], rel=0.005)
