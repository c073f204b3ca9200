"""Token gaps by the time window in which they end: exact counts, so windows merge by adding.

A gap that ends at the edge between two windows belongs to the earlier one, as steps do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvsim.sim.recording.gap_bins import quantiles_ps
from kvsim.sim.recording.time_windows import MAX_WINDOWS

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GapCourse(NamedTuple):
    """Gaps of consecutive stretches of a run, one row each; columns are bins from a first one."""

    counts: NDArray[np.int64]
    max_ps: NDArray[np.int64]
    first_bin: int

    @property
    def num(self) -> NDArray[np.int64]:
        """Gaps that end in each stretch."""
        num: NDArray[np.int64] = self.counts.sum(axis=1)
        return num

    def quantiles_ps(self, q: float) -> NDArray[np.float64]:
        """Quantile of each stretch (within 0.5 %), nan where no gap ends."""
        return quantiles_ps(self.counts, self.max_ps, self.first_bin, q)


class GapWindows:
    """Counts by window and bin; as many bins as the run's gaps reach over.

    Attributes
    ----------
    width_ps : int
        Of a window; doubled when a run outgrows ``MAX_WINDOWS``.
    """

    __slots__ = ("_counts", "_first_bin", "_max_ps", "width_ps")

    def __init__(self, width_ps: int) -> None:
        self.width_ps = width_ps
        self._first_bin = 0
        self._counts = np.zeros((MAX_WINDOWS, 0), dtype=np.int64)
        self._max_ps = np.zeros(MAX_WINDOWS, dtype=np.int64)

    def make_room(self, last_ps: int) -> None:
        """Double the width until some window holds ``last_ps``."""
        while last_ps // self.width_ps >= MAX_WINDOWS:
            self._double()

    def add(
        self,
        windows: NDArray[np.int64],
        bins: NDArray[np.int64],
        samples: NDArray[np.int64],
        longest_ps: NDArray[np.int64],
    ) -> None:
        """Count ``samples`` gaps of one window and bin each, the longest of them ``longest_ps``."""
        if not len(bins):
            return
        self._reach(int(bins.min()), int(bins.max()) + 1)
        num_bins = self._counts.shape[1]
        places = windows * num_bins + (bins - self._first_bin)
        np.add.at(self._counts.reshape(-1), places, samples)
        np.maximum.at(self._max_ps, windows, longest_ps)

    def course(self, width_ps: int, num_windows: int, stride: int = 1) -> GapCourse:
        """Stretches of ``stride`` of the first ``num_windows`` windows of ``width_ps``.

        ``width_ps``: a doubling of the width so far.
        """
        while self.width_ps < width_ps:
            self._double()
        starts = np.arange(0, num_windows, stride)
        return GapCourse(
            np.add.reduceat(self._counts[:num_windows], starts, axis=0),
            np.maximum.reduceat(self._max_ps[:num_windows], starts),
            self._first_bin,
        )

    def _reach(self, first_bin: int, end_bin: int) -> None:
        """Have columns for the bins ``[first_bin, end_bin)``."""
        num_bins = self._counts.shape[1]
        first = min(first_bin, self._first_bin) if num_bins else first_bin
        end = max(end_bin, self._first_bin + num_bins)
        if end - first > num_bins:
            wider = np.zeros((MAX_WINDOWS, end - first), dtype=np.int64)
            at = self._first_bin - first if num_bins else 0
            wider[:, at : at + num_bins] = self._counts
            self._counts, self._first_bin = wider, first

    def _double(self) -> None:
        self.width_ps *= 2
        half = MAX_WINDOWS // 2
        self._counts[:half] = self._counts[::2] + self._counts[1::2]
        self._max_ps[:half] = np.maximum(self._max_ps[::2], self._max_ps[1::2])
        self._counts[half:] = 0
        self._max_ps[half:] = 0
