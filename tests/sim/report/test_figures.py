"""Numbers for a screen, and curves thinned so that their peaks stay."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.report.chart import unbroken
from kvsim.sim.report.figures import log_ticks, numbers, thinned
from kvsim.traces.common.text import seconds
from tests.page_kinds import PAGES


def test_numbers_have_five_digits_and_gaps() -> None:
    assert numbers([1 / 3, 123456.7, np.nan, 0]) == [0.33333, 123460, None, 0]


def test_a_long_logarithmic_axis_has_ticks_at_tens_only() -> None:
    assert log_ticks([0.006, 30], seconds)["ticktext"] == [
        "1 ms",
        "10 ms",
        "100 ms",
        "1 s",
        "10 s",
        "100 s",
    ]


def test_a_short_logarithmic_axis_has_ticks_between_the_tens() -> None:
    ticks = log_ticks([0.02, 0, None, 0.3], seconds)
    assert ticks["ticktext"] == [
        *("10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1 s", "2 s", "5 s")
    ]


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        ([0.00635, 0.00636], "5 ms", "10 ms"),
        ([0.009, 0.011], "5 ms", "20 ms"),
        ([10], "10 s", "20 s"),
    ],
)
def test_values_that_lie_close_have_a_tick_on_either_side(
    values: list[float], least: str, most: str
) -> None:
    axis: dict[str, Any] = log_ticks(values, seconds)
    shown = [
        text
        for tick, text in zip(axis["tickvals"], axis["ticktext"], strict=True)
        if axis["range"][0] <= np.log10(tick) <= axis["range"][1]
    ]
    assert (shown[0], shown[-1]) == (least, most)


def test_an_axis_with_nothing_above_zero_is_linear() -> None:
    assert log_ticks([0, 0.0, None], seconds) == {"type": "linear"}


def test_a_short_curve_stays_as_it_is() -> None:
    x, y = thinned(np.arange(5), np.arange(5) ** 2, most=5)
    assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 4, 9, 16])


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), min_size=11, max_size=300),
    st.integers(2, 40),
)
def test_least_and_greatest_of_each_part_stay(values: list[float], most: int) -> None:
    y = np.array(values)
    x, thin = thinned(np.arange(len(y)), y, most)
    if len(y) <= most:
        assert len(thin) == len(y)
        return
    assert len(thin) <= 2 * (most // 2) + 2
    assert (x[0], x[-1]) == (0, len(y) - 1)
    assert (np.diff(x) > 0).all()
    assert y[x] == pytest.approx(thin, nan_ok=True)
    if not np.isnan(y).all():
        assert np.nanmax(thin) == np.nanmax(y)
        assert np.nanmin(thin) == np.nanmin(y)


def test_a_single_spike_in_a_million_is_seen() -> None:
    y = np.zeros(1_000_000)
    y[654_321] = 7
    x, thin = thinned(np.arange(len(y)), y)
    assert x[np.argmax(thin)] == 654_321
    assert len(thin) < 2100


def logarithmic_axes(page: str) -> list[Any]:
    """Of all charts of a page."""
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
    axes = [axis for data in found for axis in json.loads(data)["layout"].values()]
    return [axis for axis in axes if isinstance(axis, dict) and axis.get("type") == "log"]


@pytest.mark.parametrize(("kind", "number"), [("calibration", 3), ("cache-lab", 1), ("plan", 2)])
def test_logarithmic_axes_have_ticks_in_words(kind: str, number: int) -> None:
    """Not plotly's own, whose small 2 and 5 between powers of ten nobody reads."""
    axes = logarithmic_axes("".join(PAGES[kind]("x")))
    assert len(axes) == number
    for axis in axes:
        assert len(axis["ticktext"]) == len(axis["tickvals"]) >= 2


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("99.0 % of 6.77 ms, 4.00 GiB", "99.0\u00a0% of 6.77\u00a0ms, 4.00\u00a0GiB"),
        ("5 s, 3 requests/s.", "5\u00a0s, 3\u00a0requests/s."),
        ("12 stretches, 3 samples", "12 stretches, 3 samples"),
    ],
)
def test_units_stay_with_their_numbers(text: str, want: str) -> None:
    assert unbroken(text) == want
