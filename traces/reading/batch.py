"""A batch of raw rows on its way into columns, with the faults found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_SHOWN_CHARACTERS: Final = 40


class Fault(NamedTuple):
    """Why a row cannot be used: ``reason`` groups rows, ``detail`` is about this one."""

    reason: str
    detail: str


@dataclass(slots=True)
class Batch:
    """Rows of a file, column by column, as the format gave them.

    Attributes
    ----------
    numbers
        Line (or row) number of each row, from 1.
    columns
        Name -> one cell a row. Cells are text (CSV), JSON values, or a numpy column.
    faults
        Row index in the batch -> the first fault found in that row.
    failed
        Row index -> why the source calls the request failed; such a row may have faults too.
    left_out
        Row index -> why the row is no request of the trace (warm-up, another kind of record).
    """

    numbers: NDArray[np.int64]
    columns: Mapping[str, Sequence[Any] | NDArray[Any]]
    faults: dict[int, Fault] = field(default_factory=dict)
    failed: dict[int, Fault] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def reject(self, row: int, reason: str, detail: str) -> None:
        """Note a fault of a row; a row keeps the first one."""
        self.faults.setdefault(row, Fault(reason, detail))

    def reject_cell(self, row: int, name: str, problem: str, cell: object, allowed: str) -> None:
        """Note a cell that is not what it should be, with the value seen and what is allowed."""
        seen = "is missing" if is_missing(cell) else f"is {shown(cell)}"
        reason = f"{name} is missing" if is_missing(cell) else f"{name} {problem}"
        self.reject(row, reason, f"{name} {seen}; allowed are {allowed}")

    def kept(self) -> NDArray[np.bool_]:
        """Return which rows have no fault."""
        keep = np.ones(len(self), dtype=np.bool_)
        for rows in (self.faults, self.failed, self.left_out):
            keep[list(rows)] = False
        return keep

    def fail(self, row: int, reason: str, detail: str) -> None:
        """Note that the source itself calls the request of a row failed."""
        self.failed.setdefault(row, Fault(reason, detail))


@dataclass(slots=True)
class Ragged:
    """Lists of different lengths, laid end to end: row i has ``lengths[i]`` entries of ``flat``."""

    lengths: NDArray[np.int64]
    flat: NDArray[np.int64]

    def select(self, keep: NDArray[np.bool_]) -> Ragged:
        """Return the rows where ``keep`` holds, in the same order."""
        if keep.all():
            return self
        return Ragged(self.lengths[keep], self.flat[np.repeat(keep, self.lengths)])

    def clip(self, limits: NDArray[np.int64]) -> Ragged:
        """Return the rows cut to at most ``limits[i]`` entries each."""
        lengths = np.minimum(self.lengths, limits)
        starts = np.cumsum(self.lengths) - self.lengths
        within = np.arange(len(self.flat)) - np.repeat(starts, self.lengths)
        return Ragged(lengths, self.flat[within < np.repeat(lengths, self.lengths)])

    def joined_with(self, other: Ragged) -> Ragged:
        """Return each row followed by the same row of ``other``."""
        lengths = self.lengths + other.lengths
        starts = np.cumsum(lengths) - lengths
        flat = np.empty(len(self.flat) + len(other.flat), dtype=np.int64)
        for part, begin in ((self, starts), (other, starts + self.lengths)):
            own = np.cumsum(part.lengths) - part.lengths
            flat[np.arange(len(part.flat)) + np.repeat(begin - own, part.lengths)] = part.flat
        return Ragged(lengths, flat)

    @classmethod
    def of_lists(cls, lists: Sequence[Sequence[int]]) -> Ragged:
        """Lay Python lists of int64 numbers end to end."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return cls(lengths, np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum())))

    def offsets(self) -> NDArray[np.int64]:
        """Return where each row begins in ``flat``, and where the last one ends."""
        offsets = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def reorder(self, order: NDArray[np.int64]) -> Ragged:
        """Return row ``order[0]``, then row ``order[1]``, ...; some may be left out."""
        starts = (np.cumsum(self.lengths) - self.lengths)[order]
        lengths = self.lengths[order]
        ends = np.cumsum(lengths)
        source = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        return Ragged(lengths, self.flat[source])


def is_missing(cell: object) -> bool:
    """Tell whether a cell says nothing: null, or empty text."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def shown(cell: object) -> str:
    """Write a cell for a message, cut where it is long."""
    text = str(cell) if isinstance(cell, Decimal | np.integer) else repr(cell)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
