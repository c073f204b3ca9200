"""CSV and JSON lines as batches of rows, with true line numbers."""

from __future__ import annotations

import csv
import json
import re
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.base import CSV_METADATA_MARK
from kvsim.traces.reading.batch import Batch, shown
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source

_LONGEST_CELL: Final = 2**31 - 1
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class CsvTable:
    """A CSV file with a header: the names in it, then its rows in batches. Blank lines count not.

    Attributes
    ----------
    header
        Column names, in file order.
    metadata
        What follows ``# kvsim-trace`` in the first line, if it begins so.
    """

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._text = source.text(newline="")
        self.metadata: str | None = None
        self._lines_before = 0
        lines = iter(self._text)
        first = next(lines, "")
        if first.startswith(CSV_METADATA_MARK):
            self.metadata = first.removeprefix(CSV_METADATA_MARK).strip()
            self._lines_before = 1
        else:
            lines = chain([first], lines)
        self._reader = csv.reader(lines, strict=True)
        rows, _ = self._take(1)
        self.header = [name.strip() for name in rows[0]] if rows else []
        twice = sorted({name for name in self.header if self.header.count(name) > 1})
        if twice:
            raise TraceError(f"{self._path}: column {twice[0]!r} occurs twice in the header")

    def need(self, names: Sequence[str]) -> None:
        """Raise where one of these columns is absent."""
        for name in names:
            if name not in self.header:
                raise TraceError(
                    f"{self._path}: column {name!r} is missing: the header has "
                    f"{shown(','.join(self.header))} and must have {', '.join(names)}"
                )

    def batches(self, intake: Intake) -> Iterator[Batch]:
        """Yield rows until the file ends or ``intake`` is full; cells are text."""
        width = len(self.header)
        while wanted := intake.rows_wanted():
            rows, numbers = self._take(wanted)
            if not rows:
                return
            batch = Batch(numbers, {})
            if set(map(len, rows)) != {width}:
                for index, row in enumerate(rows):
                    if len(row) != width:
                        rows[index] = (row + [""] * width)[:width]
                        batch.reject(
                            index,
                            "has another number of fields than the header",
                            f"the row has {len(row)} fields and the header {width} (a comma "
                            "inside a number, such as 1,024, looks like this)",
                        )
            batch.columns = dict(zip(self.header, zip(*rows, strict=True), strict=True))
            yield batch

    def _take(self, count: int) -> tuple[list[list[str]], NDArray[np.int64]]:
        """Take rows and their last line numbers; blank lines are passed over."""
        before = self._reader.line_num
        limit = csv.field_size_limit(_LONGEST_CELL)
        try:
            rows = list(islice(self._reader, count))
        except csv.Error as error:
            line = self._reader.line_num + self._lines_before
            raise TraceError(f"{self._path}: line {line}: this is not CSV: {error}") from error
        finally:
            csv.field_size_limit(limit)
        if self._reader.line_num - before == len(rows):
            lines = np.arange(1, len(rows) + 1)
        else:  # line breaks inside quoted cells
            lines = np.cumsum([1 + sum(map(_num_breaks, row)) for row in rows])
        numbers = lines + (before + self._lines_before)
        if all(rows):
            return rows, numbers
        full = [index for index, row in enumerate(rows) if row]
        if not full:
            return self._take(count) if rows else (rows, numbers)
        return [rows[index] for index in full], numbers[full]


def _num_breaks(cell: str) -> int:
    return len(_LINE_BREAK.findall(cell))


class JsonLines:
    """One JSON object a line, in batches. Blank lines do not count."""

    def __init__(self, source: Source) -> None:
        self._lines = enumerate(source.text(newline=None), start=1)
        self._peeked: list[tuple[int, str]] = []
        self.other_keys: set[str] = set()

    def first(self) -> object:
        """Return the first line's value without taking it; None where it is not JSON."""
        self._peeked = self._take(1)
        try:
            return parse_json(self._peeked[0][1]) if self._peeked else None
        except ValueError:
            return None

    def drop_first(self) -> None:
        """Take the line that :meth:`first` looked at."""
        self._peeked = []

    def batches(
        self, intake: Intake, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield rows until the file ends or ``intake`` is full; cells are JSON values.

        Columns are the ``required`` keys and those ``optional`` ones that occur in the batch;
        :attr:`other_keys` collects the rest.
        """
        while wanted := intake.rows_wanted():
            lines = self._peeked + self._take(wanted - len(self._peeked))
            self._peeked = []
            if not lines:
                return
            batch = Batch(np.array([number for number, _ in lines], dtype=np.int64), {})
            objects = [_object(batch, row, line) for row, (_, line) in enumerate(lines)]
            occur = set().union(*objects)
            self.other_keys |= occur.difference(required, optional)
            names = (*required, *(name for name in optional if name in occur))
            batch.columns = {name: [row.get(name) for row in objects] for name in names}
            yield batch

    def _take(self, count: int) -> list[tuple[int, str]]:
        taken: list[tuple[int, str]] = []
        while len(taken) < count:
            numbered = next(self._lines, None)
            if numbered is None:
                break
            if not numbered[1].isspace():
                taken.append(numbered)
        return taken


def parse_json(text: str | bytes) -> Any:
    """Parse JSON without floats: decimals stay decimal, ``NaN`` and ``Infinity`` become text.

    Raises
    ------
    ValueError
        The text is not JSON (nested beyond what Python can follow, too), or an object has two
        values under one key: which of them counts, nobody knows.
    """
    try:
        return _JSON.decode(text if isinstance(text, str) else text.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ArithmeticError as error:
        raise ValueError("it holds a number with an exponent beyond all bounds") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {shown(twice)} occurs twice in one object")
    return value


_JSON: Final = json.JSONDecoder(
    parse_float=Decimal, parse_constant=str, object_pairs_hook=_distinct
)


def _object(batch: Batch, row: int, line: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        batch.reject(row, "is not JSON", f"the line is not JSON: {error}")
        return {}
    if isinstance(value, dict):
        return value
    batch.reject(row, "is not a JSON object", f"the line is {shown(value)}, not a JSON object")
    return {}
