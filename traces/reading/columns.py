"""Columns of requests: their defaults, and how they grow in place while a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged
from kvsim.traces.trace.order_statistics import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import DTypeLike, NDArray


_LEAST_ROOM: Final = 1 << 16
_SPARE_SHARE: Final = 64


class GrowingColumn:
    """Numbers or objects, appended piece by piece; a row never lies in memory twice.

    The array is resized in place (Linux moves the pages of a large one, it copies no byte), with
    room for 1/64 more than was asked for, so that appending stays linear where it is copied.
    """

    def __init__(self, kind: DTypeLike) -> None:
        self._values: NDArray[Any] = np.empty(0, dtype=kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, piece: NDArray[Any]) -> None:
        """Add the values of ``piece``, which is copied."""
        end = self._make_room(len(piece))
        self._values[self._length : end] = piece
        self._length = end

    def append_same(self, value: object, count: int) -> None:
        """Add ``value`` so many times."""
        end = self._make_room(count)
        self._values[self._length : end] = value
        self._length = end

    def values(self) -> NDArray[Any]:
        """View what is there; valid until the next append."""
        return self._values[: self._length]

    def taken(self) -> NDArray[Any]:
        """Give the array away, without spare room; the column is empty afterwards."""
        values, self._values = self._values, np.empty(0, dtype=self._values.dtype)
        values.resize(self._length, refcheck=False)
        self._length = 0
        return values

    def _make_room(self, count: int) -> int:
        end = self._length + count
        if end > len(self._values):
            spare = max(_LEAST_ROOM, end // _SPARE_SHARE)
            self._values.resize(end + spare, refcheck=False)
        return end


class GrowingLists:
    """Lists of numbers, one a row; rows of pieces without any have empty ones."""

    def __init__(self) -> None:
        self._lengths = GrowingColumn(np.int64)
        self._flat = GrowingColumn(np.int64)
        self._num_rows = 0

    def append(self, lists: Ragged | None, num_rows: int) -> None:
        """Add the lists of so many rows; None: they have none."""
        if lists is not None:
            self._lengths.append_same(0, self._num_rows - len(self._lengths))
            self._lengths.append(lists.lengths)
            self._flat.append(lists.flat)
        self._num_rows += num_rows

    def taken(self) -> Ragged | None:
        """Give the lists away; None where no row could have one."""
        if not len(self._lengths):
            return None
        self._lengths.append_same(0, self._num_rows - len(self._lengths))
        return Ragged(self._lengths.taken(), self._flat.taken())


DEFAULTS: Final[Mapping[str, int | str]] = {
    "max_tokens": -1,
    "ends_by": 0,
    "priority": 0,
    "ids": "",
    "user": "",
    "session": "",
    "turn": 0,
    "after_request": -1,
    "delay_ns": -1,
    "num_samples": 1,
    "beam_width": 1,
    "has_time": 1,
    "timeout_ns": -1,
    "end_ns": -1,
}
"""Optional columns of a trace, and what a row says that says nothing."""


class Columns:
    """The columns of requests, growing in place; what a chunk lacks says its default."""

    def __init__(self) -> None:
        self._columns: dict[str, GrowingColumn] = {}
        self._length = 0

    def append(self, chunk: Mapping[str, NDArray[Any]], count: int) -> None:
        """Add ``count`` requests."""
        for name, values in chunk.items():
            if name not in self._columns:
                self._columns[name] = GrowingColumn(values.dtype)
                if self._length:
                    self._columns[name].append_same(DEFAULTS[name], self._length)
            self._columns[name].append(values)
        for name in self._columns.keys() - chunk.keys():
            self._columns[name].append_same(DEFAULTS[name], count)
        self._length += count

    def taken(self) -> dict[str, NDArray[Any]]:
        """Give the whole columns away."""
        return {name: column.taken() for name, column in self._columns.items()}


def derive_delays(columns: dict[str, NDArray[Any]]) -> None:
    """Where a predecessor's end is recorded, the delay is the time from it to the request.

    Requests that follow one whose end is not known have -1: not said. Those that follow none have
    none.
    """
    after = columns["after_request"]
    recorded = "delay_ns" in columns
    if not recorded and "end_ns" not in columns:
        return
    delay_ns = columns.setdefault("delay_ns", np.empty(len(after), dtype=np.int64))
    for part in parts(len(after)):
        if recorded:
            delay_ns[part][(after[part] < 0) & (delay_ns[part] < 0)] = 0
        else:
            ended = np.where(after[part] >= 0, columns["end_ns"][after[part]], -1)
            since = np.maximum(columns["arrival_ns"][part] - ended, 0)
            delay_ns[part] = np.where(ended >= 0, since, np.where(after[part] >= 0, -1, 0))


def parts(count: int) -> Iterator[slice]:
    """Cut rows into parts, so that what is made of one is small."""
    for first in range(0, count, BLOCK):
        yield slice(first, min(first + BLOCK, count))
