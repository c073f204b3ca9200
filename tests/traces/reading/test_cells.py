"""Cells into exact numbers, by the fast way and by the slow one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.reading.batch import Batch, Ragged
from kvsim.traces.reading.cells import (
    MAX_TOKENS,
    decimal_times_ns,
    id_lists,
    texts,
    whole_numbers,
)


def batch_of(cells: list[Any]) -> Batch:
    return Batch(np.arange(1, len(cells) + 1), {"x": cells})


@pytest.mark.parametrize(
    "cells",
    [
        ["7", "12"],
        ["7", " 12"],
        ["7", "12.0"],
        [7, 12],
        [7, Decimal("12.0")],
        [7.0, 12.0],
        ["+7", 12],
    ],
)
def test_whole_numbers_in_every_writing(cells: list[Any]) -> None:
    batch = batch_of(cells)
    assert whole_numbers(batch, "x").tolist() == [7, 12]
    assert not batch.faults


@pytest.mark.parametrize(
    "cell",
    [
        "12.5", "1,024", "NaN", "nan", "1e3", "1_000", "٣", "0x10", "twelve", "-", "", "  ", None,
        True, 12.5, float("nan"), float("inf"), Decimal("12.5"), Decimal("1e999999"), [1], {},
        "0", "-1", 0, -1, "99999999999", 10**30, "9" * 30, "9" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_length_is_a_fault_of_its_row(cell: object) -> None:
    batch = batch_of(["5", cell, "6"])
    values = whole_numbers(batch, "x")
    assert set(batch.faults) == {1}
    assert values[[0, 2]].tolist() == [5, 6]
    assert batch.kept().tolist() == [True, False, True]
    assert "whole numbers from 1 to 2147483647" in batch.faults[1].detail


def test_an_empty_cell_takes_the_default_even_outside_the_range() -> None:
    batch = batch_of(["", None, "-1", "4"])
    assert whole_numbers(batch, "x", default=-1).tolist() == [-1, -1, -1, 4]
    assert not batch.faults


@given(st.lists(st.integers(1, MAX_TOKENS), min_size=1), st.sampled_from([str, int, Decimal]))
def test_whole_numbers_round_trip(numbers: list[int], kind: type) -> None:
    assert whole_numbers(batch_of([kind(n) for n in numbers]), "x").tolist() == numbers


@given(st.integers(0, 10**9), st.integers(0, 10**9 - 1), st.sampled_from([str, Decimal]))
def test_seconds_are_read_digit_by_digit(seconds: int, fraction: int, kind: type) -> None:
    text = f"{seconds}.{fraction:09d}"
    expected = seconds * 10**9 + fraction
    for written in (text, text.rstrip("0") or "0", f"{text}000"):
        assert decimal_times_ns(batch_of([kind(written)]), "x", scale=9).tolist() == [expected]


@given(st.decimals(0, 10**6, allow_nan=False, allow_infinity=False), st.sampled_from([0, 3, 6, 9]))
def test_what_is_finer_than_1_ns_goes_to_the_nearest(number: Decimal, scale: int) -> None:
    (value,) = decimal_times_ns(batch_of([str(number)]), "x", scale=scale).tolist()
    assert abs(Fraction(number) * 10**scale - value) <= Fraction(1, 2)


def test_half_a_nanosecond_goes_to_even() -> None:
    cells = ["0.0000000005", "0.0000000015", "1e-9", "1E+2", ".5", "5.", "1e-9999"]
    values = decimal_times_ns(batch_of(cells), "x", scale=9)
    assert values.tolist() == [0, 2, 1, 10**11, 5 * 10**8, 5 * 10**9, 0]


@pytest.mark.parametrize(
    "cell",
    ["-1", "-0.5", "", None, "NaN", "Infinity", "1e30", "9" * 25, "1:30", True, [], "٣", 2**63],
)
def test_what_is_no_time_is_a_fault(cell: object) -> None:
    batch = batch_of(["1", cell])
    assert decimal_times_ns(batch, "x", scale=9)[0] == 10**9
    assert set(batch.faults) == {1}


def test_id_lists_in_both_writings() -> None:
    for cells in ([[1, 2], [], [-3]], ["1 2", "", "-3"]):
        lengths, flat = id_lists(batch_of(cells), "x")
        assert (lengths.tolist(), flat.tolist()) == ([2, 0, 1], [1, 2, -3])


@pytest.mark.parametrize(
    "cell", [[1, "x"], [1.5], [2**63], ["1", None], "1,2", 7, None, [[1]], [True]]
)
def test_what_is_no_id_list_is_a_fault(cell: object) -> None:
    batch = batch_of([[5], cell, [6]])
    lengths, _ = id_lists(batch, "x")
    assert len(lengths) == 3
    assert set(batch.faults) == {1}


def test_texts_take_text_and_whole_numbers() -> None:
    batch = batch_of(["a", " b ", 7, None, 1.5])
    assert texts(batch, "x").tolist()[:4] == ["a", " b ", "7", ""]
    assert set(batch.faults) == {4}


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=6), st.randoms())
def test_ragged_against_lists(rows: list[list[int]], random: Any) -> None:
    ragged = Ragged(np.array([len(r) for r in rows]), np.array(list(chain(*rows)), dtype=np.int64))

    def lists(ragged: Ragged) -> list[list[int]]:
        ends = np.cumsum(ragged.lengths).tolist()
        return [ragged.flat[e - n : e].tolist() for e, n in zip(ends, ragged.lengths, strict=True)]

    keep = np.array([random.random() < 0.5 for _ in rows])
    limits = np.array([random.randrange(6) for _ in rows])
    order = np.array(random.sample(range(len(rows)), len(rows)))
    assert lists(ragged.select(keep)) == [r for r, k in zip(rows, keep, strict=True) if k]
    assert lists(ragged.clip(limits)) == [r[:n] for r, n in zip(rows, limits, strict=True)]
    assert lists(ragged.reorder(order)) == [rows[i] for i in order]


def test_a_fault_leaves_a_filler_that_can_be_computed_with() -> None:
    batch = batch_of([3, -4, 5])
    assert whole_numbers(batch, "x").tolist() == [3, 1, 5]
    assert set(batch.faults) == {1}
