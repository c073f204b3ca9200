"""Calendar times (``2023-11-16 18:15:46.6805900``, ISO 8601) into Unix nanoseconds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch

_STAMP: Final = re.compile(
    r"\s*((?:19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}[ T]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)(Z|[+-]00:?00)?\s*"
)
_ALLOWED: Final = "UTC times yyyy-mm-dd hh:mm:ss.fffffff from 1970 to 2199"
_ZONE: Final = "+00:00"
_PLAIN: Final = re.compile(
    r"(?:(?:19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}[ T]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?\n)*"
)


class Stamps:
    """Reads the times of one file; remembers whether they name a zone, which may not change."""

    def __init__(self) -> None:
        self._zoned: bool | None = None

    @property
    def unit(self) -> str:
        """What the receipt calls these times."""
        return "timestamps (UTC)" if self._zoned else "timestamps without zone (taken as UTC)"

    def read_ns(self, batch: Batch, name: str) -> NDArray[np.int64]:
        """Return one Unix time in ns a row; a fault for every cell that is none."""
        cells = batch.columns[name]
        fast = self._all_plain(cells)
        if fast is not None:
            return fast
        stamps = []
        for row, cell in enumerate(cells):
            match = _STAMP.fullmatch(cell) if isinstance(cell, str) else None
            if match is None:
                batch.reject_cell(row, name, "is not a timestamp", cell, _ALLOWED)
            elif not self._same_form(match[2] is not None):
                batch.reject(
                    row,
                    f"{name} mixes times with and without a zone",
                    f"{name} is {cell!r}, but the times before it are "
                    f"{'with' if self._zoned else 'without'} a zone",
                )
            stamps.append(match[1] if match else "1970-01-01")
        try:
            return np.array(stamps, dtype="datetime64[ns]").astype(np.int64)
        except ValueError:  # a 30 February among them
            return np.array([_one_ns(batch, name, row, stamp) for row, stamp in enumerate(stamps)])

    def _same_form(self, zoned: bool) -> bool:
        if self._zoned is None:
            self._zoned = zoned
        return self._zoned == zoned

    def _all_plain(self, cells: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64] | None:
        """Convert at once where all cells are text of one form; else None."""
        if not len(cells) or set(map(type, cells)) != {str}:
            return None
        zoned = cells[0].endswith(_ZONE)
        if self._zoned not in (None, zoned):
            return None
        text = "\n".join(cells) + "\n"
        if zoned:
            if text.count(_ZONE + "\n") != len(cells):
                return None
            text = text.replace(_ZONE + "\n", "\n")
        if not _PLAIN.fullmatch(text):
            return None
        try:
            values = np.array(text.split("\n")[:-1], dtype="datetime64[ns]").astype(np.int64)
        except ValueError:
            return None
        self._zoned = zoned
        return values


def _one_ns(batch: Batch, name: str, row: int, stamp: str) -> int:
    try:
        return int(np.datetime64(stamp, "ns").astype(np.int64))
    except ValueError:
        batch.reject_cell(row, name, "is not a timestamp", stamp, _ALLOWED)
        return 0
