"""Arrival times divided exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.adjust.rate_scale import parse_rate_scale, scale_rate
from kvsim.traces.trace.trace import Trace


def arriving(*arrival_ns: int) -> Trace:
    one = np.ones(len(arrival_ns), dtype=np.int64)
    return Trace("t", np.array(arrival_ns, dtype=np.int64), one, one)


@given(
    st.lists(st.integers(0, 2**52), min_size=1).map(sorted),
    st.fractions(Fraction(1, 2), 1000, max_denominator=10**6),
)
def test_every_time_is_divided_exactly_and_rounded_down(
    times_ns: list[int], scale: Fraction
) -> None:
    scaled = scale_rate(arriving(*times_ns), scale)
    assert scaled.arrival_ns.tolist() == [
        t * scale.denominator // scale.numerator for t in times_ns
    ]
    assert scaled.arrival_ns.dtype == np.int64


def test_times_beyond_the_clock_are_refused() -> None:
    with pytest.raises(ValueError, match="arrive after 1,157 days; at most 106 days"):
        scale_rate(arriving(0, 10**14), Fraction(1, 1000))
    with pytest.raises(ValueError, match="at most 106 days"):
        scale_rate(arriving(0, 2**62), Fraction(1, 2))
    with pytest.raises(ValueError, match="the last request arrives after 107 days; at most 106"):
        scale_rate(arriving(0, 9_300_000_000_000_000), Fraction(1))


def test_a_rate_of_one_changes_nothing() -> None:
    trace = arriving(0, 5)
    assert scale_rate(trace, Fraction(1)) is trace


@pytest.mark.parametrize(("text", "scale"), [("2", 2), ("0.1", Fraction(1, 10)), ("3/4", 0.75)])
def test_rates_are_read_as_written(text: str, scale: float) -> None:
    assert parse_rate_scale(text) == scale


@pytest.mark.parametrize("text", ["0", "-1", "fast", "1/0", "inf", "nan", "", "1e-999999999"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        parse_rate_scale(text)
