"""Where each request stands in its file: row and line, kept as runs.

Most files hold one request a line after another: one run. A new one begins behind each row that
was left out, and where lines and rows do not go on together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.reading.columns import GrowingColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Places:
    """Rows (from 0, in order of the file) and line numbers of the requests taken so far."""

    def __init__(self) -> None:
        self._starts = GrowingColumn(np.int64)  # index of the first request of each run
        self._rows = GrowingColumn(np.int64)
        self._numbers = GrowingColumn(np.int64)
        self._length = 0
        self._last = (-2, -2)

    def __len__(self) -> int:
        return self._length

    def append(self, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Add requests, whose rows increase."""
        if not len(rows):
            return
        row, number = self._last
        goes_on = np.diff(rows, prepend=row) == 1
        goes_on &= np.diff(numbers, prepend=number) == 1
        first = np.flatnonzero(~goes_on)
        self._starts.append(first + self._length)
        self._rows.append(rows[first])
        self._numbers.append(numbers[first])
        self._length += len(rows)
        self._last = int(rows[-1]), int(numbers[-1])

    def number(self, index: int) -> int:
        """Line number of a request; O(log runs)."""
        starts = self._starts.values()
        run = int(np.searchsorted(starts, index, side="right")) - 1
        return int(self._numbers.values()[run]) + index - int(starts[run])

    def index_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of the request that stands in each of these rows, -1 where none was taken."""
        starts = self._starts.values()
        run = np.searchsorted(self._rows.values(), rows, side="right") - 1
        index = starts[run] + rows - self._rows.values()[run]
        ends = np.append(starts[1:], self._length)
        return np.where((run >= 0) & (index < ends[run]), index, -1)
