"""Runs of gaps fill the bins as their steps would, and quantiles are within half a percent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.gap_histogram import GapHistogram

MICROSECOND_PS = 10**6


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**11),  # first gap: up to 0.1 s
            st.integers(0, 10**8),
            st.integers(1, 60),
            st.integers(1, 300),
        ),
        max_size=6,
    )
)
def test_a_run_equals_its_steps_one_by_one(runs: list[tuple[int, int, int, int]]) -> None:
    by_run, by_step = GapHistogram(), GapHistogram()
    for first_ps, slope_ps, num_steps, weight in runs:
        by_run.add_run(first_ps, slope_ps, num_steps, weight)
        for step in range(num_steps):
            by_step.add(first_ps + slope_ps * step, weight)
    assert by_run.counts == by_step.counts
    assert (by_run.num, by_run.sum_ps, by_run.max_ps) == (
        by_step.num,
        by_step.sum_ps,
        by_step.max_ps,
    )


@given(
    st.lists(st.integers(MICROSECOND_PS, 10**15), min_size=1, max_size=200),
    st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_within_half_a_percent(gaps: list[int], q: float) -> None:
    histogram = GapHistogram()
    for gap_ps in gaps:
        histogram.add(gap_ps, 1)
    exact = sorted(gaps)[max(math.ceil(q * len(gaps)) - 1, 0)]
    # the upper edge of a bin is rounded down, hence a bin may be a hair wider than 1 %
    assert histogram.quantile_ps(q) == pytest.approx(exact, rel=0.00501)


def test_mean_and_maximum_are_exact() -> None:
    gaps = np.random.default_rng(1).integers(1, 10**12, 500).tolist()
    histogram = GapHistogram()
    for gap_ps in gaps:
        histogram.add(gap_ps, 3)
    assert histogram.num == 1500
    assert histogram.mean_ps() == sum(gaps) / 500
    assert histogram.max_ps == max(gaps)


def test_the_largest_gap_bounds_the_last_bin() -> None:
    histogram = GapHistogram()
    histogram.add(10**9, 1)
    assert histogram.quantile_ps(1.0) <= 10**9


def test_without_samples_there_is_no_number() -> None:
    histogram = GapHistogram()
    assert math.isnan(histogram.mean_ps())
    assert math.isnan(histogram.quantile_ps(0.5))
