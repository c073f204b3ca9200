"""Exact sums per time window; the width of the windows doubles when a run needs more windows.

Window ``w`` covers ``[w * width_ps, (w + 1) * width_ps)``. All sums are integers, and windows are
merged by adding. So the time of a doubling has no effect.
"""

from __future__ import annotations

from typing import Final

MAX_WINDOWS: Final = 1024
FIRST_WIDTH_PS: Final = 2**33  # about 8.6 ms; doubled as the run grows


class TimeWindows:
    """Columns of sums, one entry a window; ``span_ps`` fills at most half of them at first.

    Attributes
    ----------
    width_ps : int
    """

    def __init__(self, span_ps: int) -> None:
        self._columns: dict[str, list[int]] = {}
        self.width_ps = FIRST_WIDTH_PS
        while self.width_ps * (MAX_WINDOWS // 2) < span_ps:
            self.width_ps *= 2
        self._num_windows = 1
        self._room_ps = self.width_ps

    @property
    def windows(self) -> dict[str, list[int]]:
        """Return the columns by name, all of one length; higher layers add theirs."""
        return self._columns

    def crosses(self, start_ps: int, end_ps: int) -> bool:
        """Whether ``[start_ps, end_ps)`` crosses the edge of a window."""
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        width_ps = self.width_ps
        return start_ps // width_ps != (end_ps - 1) // width_ps and end_ps > start_ps

    def window_end(self, time_ps: int) -> int:
        """Return the end of the window of ``time_ps``."""
        return (time_ps // self.width_ps + 1) * self.width_ps

    def _column(self, name: str) -> list[int]:
        """Add a column; call it before any time has passed."""
        values = self._columns[name] = [0]
        return values

    def _spread(self, name: str, start_ps: int, end_ps: int, amount: int) -> None:
        """Add the integral of ``amount`` over ``[start_ps, end_ps)``."""
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        values, width_ps = self._columns[name], self.width_ps
        while start_ps < end_ps:
            window = start_ps // width_ps
            upto_ps = min(end_ps, (window + 1) * width_ps)
            values[window] += amount * (upto_ps - start_ps)
            start_ps = upto_ps

    def _count(self, name: str, at_ps: int, amount: int) -> None:
        """Add ``amount`` to the window of ``at_ps``."""
        if at_ps >= self._room_ps:
            self._make_room(at_ps)
        self._columns[name][at_ps // self.width_ps] += amount

    def _make_room(self, last_ps: int) -> None:
        """Add windows up to the one of ``last_ps``, or double their width."""
        while last_ps // self.width_ps >= self._num_windows:
            if self._num_windows < MAX_WINDOWS:
                missing = min(last_ps // self.width_ps + 1, MAX_WINDOWS) - self._num_windows
                for values in self._columns.values():
                    values.extend([0] * missing)
                self._num_windows += missing
            else:
                self.width_ps *= 2
                for values in self._columns.values():
                    values[:] = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
                    values.extend([0] * (MAX_WINDOWS - len(values)))
        self._room_ps = self._num_windows * self.width_ps
