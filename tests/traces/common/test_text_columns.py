"""Columns of a terminal: what is padded, cut and wrapped by them is as wide as it should be."""

from __future__ import annotations

import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.common.text import closed, cut, num_columns, spread

TEXTS = st.text(st.sampled_from("ab é漢字ｶＡ한あ😀-"), max_size=30)


def wide(text: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


@given(TEXTS)
def test_spread_is_as_long_as_it_is_wide_and_closes_to_what_it_was(text: str) -> None:
    assert len(spread(text)) == num_columns(text) == wide(text)
    assert closed(spread(text)) == text


@given(TEXTS, st.integers(0, 40))
def test_a_cut_is_never_wider_than_asked(text: str, width: int) -> None:
    start = closed(spread(text)[:width])
    assert wide(start) == min(width, wide(text))
    assert text.startswith(start.rstrip())


@given(TEXTS, st.integers(0, 40))
def test_the_middle_of_a_long_text_is_left_out(text: str, width: int) -> None:
    short = closed(cut(spread(text), width))
    assert wide(short) == min(width, wide(text))
    if wide(text) > width >= 3:
        start, end = short.split("...", 1)
        assert text.startswith(start.rstrip())
        assert text.endswith(end.lstrip())


@given(TEXTS, st.integers(4, 40))
def test_padding_and_wrapping_count_columns(text: str, width: int) -> None:
    assert wide(closed(f"{spread(text):<{width}}")) == max(width, wide(text))
    for line in textwrap.wrap(spread(text), width):
        assert wide(closed(line)) <= width


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("plain", 5), ("漢字", 4), ("ｶﾀ", 2)])
def test_known_widths(text: str, columns: int) -> None:
    assert num_columns(text) == columns
