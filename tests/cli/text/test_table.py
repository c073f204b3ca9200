"""Text tables, numbers and durations."""

import pytest

from kvsim.cli.text.table import table, wrapped
from kvsim.traces.common.text import number, percent, seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (12.3456, "12.35"),
        (123456.7, "123,457"),
        (0.00001234, "1.234e-05"),
    ],
)
def test_numbers(value: object, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.000035, "35 us"),
        (0.0123, "12.3 ms"),
        (0.0009994, "999 us"),
        (0.0009996, "1 ms"),
        (0.9996, "1 s"),
        (4.5678, "4.57 s"),
        (999.4, "999 s"),
        (999.6, "1,000 s"),
        (12345.6, "12,346 s"),
    ],
)
def test_seconds(value: object, text: str) -> None:
    assert seconds(value) == text


def test_columns_are_aligned_to_the_right() -> None:
    assert table([("a", "b", "c"), ("x", "1", "23")], first_width=4, width=12) == [
        "a      b   c",
        "x      1  23",
    ]


def test_sentences_break_between_words_but_not_before_a_unit() -> None:
    lines = wrapped("label", "aaaa bbbb 12 ms cccc", first_width=6, width=18)
    assert lines == ["label aaaa bbbb", "      12 ms cccc"]
    assert wrapped("label", "") == ["label"]
    assert wrapped("a long label", "text", first_width=6) == ["a long label", "      text"]
    assert wrapped("a long label", "", first_width=6) == ["a long label"]
    assert wrapped("", "text", first_width=0) == ["text"]


def test_cells_that_are_too_long_stay_apart() -> None:
    assert table([("a", "12,345", "9,999.00 GiB")], first_width=2, width=16) == [
        "a  12,345 9,999.00 GiB"
    ]


def test_what_is_above_a_limit_never_reads_as_the_limit() -> None:
    assert percent(0.1000001, 0.1) == "10.1 %"
    assert percent(0.1000001, 0.1, digits=0) == "11 %"
    assert percent(0.103, 0.1, digits=0) == "11 %"
    assert percent(0.1, 0.1) == percent(0.0999999, 0.1) == percent(0.1000001) == "10.0 %"
    assert percent(0.357, 0.05, 0.1) == "35.7 %"
    assert percent(0.0500001, 0.1, 0.05) == "5.1 %"
