"""Sizes and durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.common.quantities import (
    format_duration,
    format_size,
    parse_duration_ps,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("12GiB", 12 * 2**30),
        ("12GB", 12 * 10**9),
        ("12", 12 * 2**30),
        (12, 12 * 2**30),
        (0.5, 2**29),
        ("1.5 MiB", 3 * 2**19),
        ("512mib", 2**29),
        ("1_000B", 1000),
    ],
)
def test_sizes(text: object, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_ps"),
    [
        ("2s", 2 * 10**12),
        ("50ms", 50 * 10**9),
        ("0.1s", 10**11),
        ("30us", 30 * 10**6),
        ("20 ns", 20_000),
        ("1min", 60 * 10**12),
        (0, 0),
    ],
)
def test_durations(text: object, duration_ps: int) -> None:
    assert parse_duration_ps(text) == duration_ps


@pytest.mark.parametrize("text", ["12XB", "GiB", "-1GB", "", True, None, [1], "1e3GB"])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size such as 12GiB, 12GB"):
        parse_size_bytes(text)


@pytest.mark.parametrize("text", ["2", 2, 1.5, "2 parsecs", "s", False])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a time with its unit, such as 2s"):
        parse_duration_ps(text)


def test_finer_than_the_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="finer than the smallest unit"):
        parse_duration_ps("0.5ps")


@given(st.integers(0, 10**18))
def test_formats_read_back(amount: int) -> None:
    assert parse_duration_ps(format_duration(amount)) == amount
    assert parse_size_bytes(format_size(amount)) == amount
