"""Text tables, numbers and durations."""

import pytest

from kvsim.cli.table import table, wrapped
from kvsim.sim.readable import number, seconds, shortened


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


def test_long_names_keep_both_ends() -> None:
    assert shortened("prefix policy=lru", 17) == "prefix policy=lru"
    assert shortened("prefix policy=furthest-next-use", 21) == "prefix po...-next-use"
    assert len(shortened("x" * 40, 20)) == 20
