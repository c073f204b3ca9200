"""Columns that grow in place while a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged

if TYPE_CHECKING:
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
