"""Cells into numpy columns: exact, fast where all cells are plain, and precise about a bad one.

Each function takes a column of a :class:`Batch`, returns one value a row and notes a fault for
every cell that does not fit (its value in the result is then a filler). No float's rounding shows
in a number: ``3.3`` seconds are 3,300,000,000 ns.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch

MAX_TOKENS: Final = 2**31 - 1
"""Longest prompt or output that kvsim accepts."""
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]{1,20})(?:\.0*)?\s*")
_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?\s*")
_PLAIN_TIMES: Final = re.compile(r"[0-9.]*")
_SURE_NS: Final = 2.0**49
"""Below it (6.5 days) a time in ns, parsed and scaled, is off by 0.125 at most."""
_UNSURE_NS: Final = 0.15
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_EVEN)
_POWERS: Final[dict[int, int]] = {scale: 10**scale for scale in range(10)}
_UNIT_NAMES: Final = {0: "ns", 3: "us", 6: "ms", 9: "seconds"}


def whole_numbers(
    batch: Batch, name: str, *, low: int = 1, high: int = MAX_TOKENS, default: int | None = None
) -> NDArray[np.int64]:
    """Read whole numbers in ``low..high``; empty cells become ``default`` where one is given."""
    column = batch.columns[name]
    allowed = f"whole numbers from {low} to {high}"
    if default is not None and not low <= default <= high:
        allowed = f"{default} (not said) and {allowed}"
    values = _plain_whole(column)
    if values is None:
        values = np.full(len(batch), low, dtype=np.int64)
        for row, cell in enumerate(column):
            value = default if default is not None and is_missing(cell) else _whole(cell)
            if value is None:
                batch.reject_cell(row, name, "is not a whole number", cell, allowed)
            elif not low <= value <= high and value != default:
                batch.reject_cell(row, name, f"is not in {low}..{high}", cell, allowed)
            else:
                values[row] = value
        return values
    outside = (values < low) | (values > high)
    if default is not None:
        outside &= values != default
    for row in np.flatnonzero(outside).tolist():
        batch.reject_cell(row, name, f"is not in {low}..{high}", column[row], allowed)
    return np.where(outside, low, values) if outside.any() else values


def decimal_times_ns(batch: Batch, name: str, *, scale: int) -> NDArray[np.int64]:
    """Read non-negative times whose unit is ``10**scale`` ns, digit by digit.

    What is finer than 1 ns is rounded to the nearest (half to even).
    """
    column = batch.columns[name]
    most = INT64_MAX // _POWERS[scale]
    plain = _plain_whole(column)
    if plain is not None and ((plain >= 0) & (plain <= most)).all():
        return plain * _POWERS[scale]
    values, unsure = _nearest_ns(column, scale)
    for row in unsure:
        cell = column[row]
        value = _time_ns(cell, scale)
        if value is None:
            allowed = f"plain numbers of {_UNIT_NAMES[scale]} from 0 to {most}"
            batch.reject_cell(row, name, "is not a usable time", cell, allowed)
        else:
            values[row] = value
    return values


def _nearest_ns(
    column: Sequence[Any] | NDArray[Any], scale: int
) -> tuple[NDArray[np.int64], Sequence[int]]:
    """Convert plain decimals by floats where that is provably exact; the other rows are unsure.

    Parsing and scaling are each off by half a last bit at most, here by 0.125 ns together, so
    rounding the float is rounding the number as written unless it comes close to half of a ns.
    """
    values = np.zeros(len(column), dtype=np.int64)
    everything = range(len(column))
    if isinstance(column, np.ndarray) or set(map(type, column)) != {str}:
        return values, everything
    if not _PLAIN_TIMES.fullmatch("".join(column)):
        return values, everything
    try:
        exact = np.fromiter(map(float, column), np.float64, len(column)) * float(_POWERS[scale])
    except ValueError:  # an empty cell, or two points in one
        return values, everything
    rounded = np.rint(exact)
    sure = (exact < _SURE_NS) & (np.abs(np.abs(exact - rounded) - 0.5) > _UNSURE_NS)
    values[sure] = rounded[sure].astype(np.int64)
    return values, np.flatnonzero(~sure).tolist()


def texts(batch: Batch, name: str) -> NDArray[np.object_]:
    """Read text as it stands; whole numbers become their digits, nothing becomes ``""``."""
    column = batch.columns[name]
    values = np.empty(len(batch), dtype=np.object_)
    for row, cell in enumerate(column):
        if isinstance(cell, str):
            values[row] = cell
        elif cell is None:
            values[row] = ""
        elif isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            values[row] = str(cell)
        else:
            batch.reject_cell(row, name, "is not text", cell, "text and whole numbers")
    return values


def codes(batch: Batch, name: str, choices: Sequence[str]) -> NDArray[np.uint8]:
    """Read one of ``choices`` a row as its index; nothing becomes the first."""
    values = np.zeros(len(batch), dtype=np.uint8)
    index = {choice: code for code, choice in enumerate(choices)}
    for row, cell in enumerate(batch.columns[name]):
        if isinstance(cell, str) and cell in index:
            values[row] = index[cell]
        elif not is_missing(cell):
            batch.reject_cell(row, name, "is not a known choice", cell, " and ".join(choices))
    return values


def id_lists(batch: Batch, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read lists of int64 ids (JSON lists, or digits with spaces between): lengths, flat ids."""
    column = batch.columns[name]
    lists: list[list[Any]] = []
    for row, cell in enumerate(column):
        if isinstance(cell, list):
            lists.append(cell)
        elif isinstance(cell, str):
            lists.append(cell.split())
        else:
            batch.reject_cell(row, name, "is not a list of ids", cell, "lists of whole numbers")
            lists.append([])
    flat = _plain_whole(list(chain.from_iterable(lists)))
    if flat is not None:
        return np.fromiter(map(len, lists), np.int64, len(lists)), flat
    parsed: list[list[int]] = []
    for row, cells in enumerate(lists):
        numbers: list[int] = []
        for cell in cells:
            value = _whole(cell)
            if value is None or not INT64_MIN <= value <= INT64_MAX:
                batch.reject_cell(row, name, "holds what is no id", cell, "64-bit whole numbers")
                break
            numbers.append(value)
        parsed.append(numbers)
    lengths = np.fromiter(map(len, parsed), np.int64, len(parsed))
    return lengths, np.array(list(chain.from_iterable(parsed)), dtype=np.int64)


def _plain_whole(column: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64] | None:
    """Convert at once where all cells are int64, JSON integers or plain digits; else None."""
    if isinstance(column, np.ndarray):
        return column if column.dtype == np.int64 else None
    kinds = set(map(type, column))
    if kinds == {str}:
        joined = "".join(column)
        if not (all(column) and joined.isascii() and joined.isdigit()):
            return None
    elif kinds - {int}:
        return None
    try:
        return np.fromiter(map(int, column), np.int64, len(column))
    except (OverflowError, ValueError):  # beyond int64, or beyond Python's limit of digits
        return None


def _whole(cell: object) -> int | None:
    if isinstance(cell, str):
        match = _WHOLE.fullmatch(cell)
        return int(match[1]) if match else None
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int | np.integer):
        return int(cell)
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() and abs(cell) < 2**63 else None
    if isinstance(cell, Decimal) and cell.is_finite() and cell.adjusted() < 20:
        return int(cell) if cell == int(cell) else None
    return None


def _time_ns(cell: object, scale: int) -> int | None:
    if isinstance(cell, str):
        whole, _, fraction = cell.partition(".")
        if len(whole) < 20 and len(fraction) <= scale and (whole + fraction).isascii():
            digits = whole + fraction.ljust(scale, "0")
            if whole and digits.isdigit():
                value = int(digits)
                return value if value <= INT64_MAX else None
        if not _NUMBER.fullmatch(cell):
            return None
        number = Decimal(cell.strip())
    elif isinstance(cell, Decimal):
        number = cell
    elif isinstance(cell, float):
        number = Decimal(repr(float(cell)))
    elif isinstance(cell, int | np.integer) and not isinstance(cell, bool):
        number = Decimal(int(cell))
    else:
        return None
    if not number.is_finite() or number < 0 or number.adjusted() > 19:
        return None
    if number.adjusted() < -30:
        return 0
    value = int(number.scaleb(scale, _EXACT).to_integral_value(context=_EXACT))
    return value if value <= INT64_MAX else None
