"""Inter-token gaps in logarithmic bins, filled for whole runs of equal steps at once.

A leap of k steps gives k gaps ``a, a + b, a + 2b, ...``. Each has the weight of its batch and ends
where the next begins. The bins are 1 % wide, so a quantile is within 0.5 % of the exact one. Count,
sum and maximum are exact. Edges of bins and windows are integers, so filling a run at once or step
by step gives equal counts. A gap that ends at the edge between two windows belongs to the earlier
one, as steps do. Counts of windows are exact, so windows are merged by adding.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvsim.sim.cost.equal_steps import steps_ps, steps_to_reach
from kvsim.sim.recording.time_windows import FIRST_WIDTH_PS, MAX_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


_SMALLEST_PS: Final = 1_000_000  # 1 us: all shorter gaps share the first bin
_LONGEST_PS: Final = 2**63 - 1  # a hundred days


def _edges() -> NDArray[np.int64]:
    edges, edge = [0], _SMALLEST_PS
    while edge < _LONGEST_PS:
        edges.append(edge)
        edge = max(edge + 1, edge * 101 // 100)
    return np.array([*edges, _LONGEST_PS], dtype=np.int64)


EDGES: Final = _edges()
"""Bin ``i`` holds the gaps in ``[EDGES[i], EDGES[i + 1])``, in ps."""

NUM_BINS: Final = len(EDGES) - 1


def bins_of(gaps_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bins of gaps."""
    return np.searchsorted(EDGES, gaps_ps, side="right") - 1


def quantiles_ps(
    counts: NDArray[np.int64], max_ps: NDArray[np.int64], first_bin: int, q: float
) -> NDArray[np.float64]:
    """Return quantile ``q`` in [0, 1] of each row of ``counts``, nan without gaps.

    Within 0.5 % from 1 us on. Columns are bins from ``first_bin`` on; ``max_ps``: the longest gap
    of each row.
    """
    if not counts.size:
        return np.full(len(counts), np.nan)
    seen = counts.cumsum(axis=1)
    rank = np.maximum(q * seen[:, -1:], 1)
    bins = first_bin + (seen >= rank).argmax(axis=1)
    longest = np.minimum(EDGES[bins + 1] - 1, max_ps)
    middle = (EDGES[bins].astype(np.float64) + longest) / 2
    return np.where(seen[:, -1] > 0, middle, np.nan)


class GapSeries(NamedTuple):
    """Gaps of consecutive stretches of a run, one row each; columns are bins from a first one."""

    counts: NDArray[np.int64]
    max_ps: NDArray[np.int64]
    first_bin: int

    @property
    def num(self) -> NDArray[np.int64]:
        """Number of gaps that end in each stretch."""
        num: NDArray[np.int64] = self.counts.sum(axis=1)
        return num

    def quantiles_ps(self, q: float) -> NDArray[np.float64]:
        """Return the quantile of each stretch (within 0.5 %), nan where no gap ends."""
        return quantiles_ps(self.counts, self.max_ps, self.first_bin, q)


class GapWindows:
    """Counts by window and bin; there are as many bins as the gaps of the run need.

    Attributes
    ----------
    width_ps : int
        Width of a window; doubled when a run needs more than ``MAX_WINDOWS``.
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

    def over_time(self, width_ps: int, num_windows: int, stride: int = 1) -> GapSeries:
        """Return stretches of ``stride`` of the first ``num_windows`` windows of ``width_ps``.

        ``width_ps``: the present width times a power of two.
        """
        while self.width_ps < width_ps:
            self._double()
        starts = np.arange(0, num_windows, stride)
        return GapSeries(
            np.add.reduceat(self._counts[:num_windows], starts, axis=0),
            np.maximum.reduceat(self._max_ps[:num_windows], starts),
            self._first_bin,
        )

    def _reach(self, first_bin: int, end_bin: int) -> None:
        """Add columns up to the bins ``[first_bin, end_bin)``."""
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


_ROWS_KEPT: Final = 8192


class GapHistogram:
    """Weighted samples of gaps in picoseconds; ``counts`` maps a bin to its weight.

    Runs are kept as rows and counted thousands at a time, because numpy does that a few times
    faster. ``width_ps``: first width of a time window.
    """

    __slots__ = ("_counts", "_max_ps", "_num", "_rows", "_sum_ps", "_windows")

    def __init__(self, width_ps: int = FIRST_WIDTH_PS) -> None:
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._counts = np.zeros(NUM_BINS, dtype=np.int64)
        self._windows = GapWindows(width_ps)
        self._num = 0
        self._sum_ps = 0
        self._max_ps = 0

    def add(self, end_ps: int, gap_ps: int, weight: int) -> None:
        """Add one gap that ends at ``end_ps``; amortised O(1)."""
        self.add_run(end_ps - gap_ps, gap_ps, 0, 1, weight)

    def add_run(
        self, start_ps: int, first_ps: int, slope_ps: int, num_steps: int, weight: int
    ) -> None:
        """Add the gaps ``first + slope * j`` for ``j`` in ``range(num_steps)``, in a row.

        O(bins and windows touched).
        """
        rows = self._rows
        rows.append((start_ps, first_ps, slope_ps, num_steps, weight))
        if len(rows) >= _ROWS_KEPT:
            self._fill()

    @property
    def counts(self) -> dict[int, int]:
        """Weight by bin, empty bins left out."""
        self._fill()
        return {int(bin_): int(self._counts[bin_]) for bin_ in np.flatnonzero(self._counts)}

    @property
    def num(self) -> int:
        """Number of samples (sum of weights)."""
        self._fill()
        return self._num

    @property
    def sum_ps(self) -> int:
        """Sum of all samples."""
        self._fill()
        return self._sum_ps

    @property
    def max_ps(self) -> int:
        """Largest sample, 0 without any."""
        self._fill()
        return self._max_ps

    def over_time(self, width_ps: int, num_windows: int, stride: int = 1) -> GapSeries:
        """Gaps by the stretch in which they end: each ``stride`` windows of ``width_ps``.

        ``width_ps`` is the first width or a doubling of it that the whole run fits in.
        """
        self._fill()
        return self._windows.over_time(width_ps, num_windows, stride)

    def _fill(self) -> None:
        """Count the kept rows; sums are split into halves of 20 bits so that int64 holds them."""
        if not self._rows:
            return
        flat = np.fromiter(chain.from_iterable(self._rows), np.int64, 5 * len(self._rows))
        start, first, slope, steps, weight = flat.reshape(-1, 5).T
        last = first + slope * (steps - 1)
        samples = steps * weight
        pairs = samples * (steps - 1) // 2
        for value, times in ((first, samples), (slope, pairs)):
            self._sum_ps += int(((value >> 20) * times).sum()) << 20
            self._sum_ps += int(((value & 0xFFFFF) * times).sum())
        self._num += int(samples.sum())
        self._max_ps = max(self._max_ps, int(last.max()))
        end = start + steps * first + slope * (steps * (steps - 1) // 2)
        self._windows.make_room(int(end.max()) - 1)
        width_ps = self._windows.width_ps
        window = np.maximum(start + first - 1, 0) // width_ps
        whole = window == np.maximum(end - 1, 0) // width_ps
        self._count(np.array([window, first, slope, steps, weight])[:, whole])
        cut = [part for row in np.flatnonzero(~whole) for part in self._parts(*self._rows[row])]
        self._count(np.array(cut, dtype=np.int64).reshape(-1, 5).T)
        self._rows.clear()

    def _parts(
        self, start_ps: int, first_ps: int, slope_ps: int, steps: int, weight: int
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Cut runs at the edges of windows; return parts as in ``_count``."""
        width_ps = self._windows.width_ps
        while steps:
            window = max(start_ps + first_ps - 1, 0) // width_ps
            span_ps = (window + 1) * width_ps - start_ps
            num = min(steps_to_reach(first_ps, slope_ps, span_ps + 1) - 1, steps)
            yield window, first_ps, slope_ps, num, weight
            start_ps += steps_ps(first_ps, slope_ps, num)
            first_ps += slope_ps * num
            steps -= num

    def _count(self, parts: NDArray[np.int64]) -> None:
        """Count parts of runs (window, first, slope, steps, weight), a bin of each at a time."""
        while parts.size:
            window, first, slope, steps, weight = parts
            bins = bins_of(first)
            inside = (EDGES[bins + 1] - 1 - first) // np.maximum(slope, 1) + 1
            num = np.where(slope, np.minimum(inside, steps), steps)
            samples = num * weight
            np.add.at(self._counts, bins, samples)
            self._windows.add(window, bins, samples, first + slope * (num - 1))
            parts = np.array([window, first + slope * num, slope, steps - num, weight])
            parts = parts[:, num < steps]

    def mean_ps(self) -> float:
        """Mean gap; nan without samples."""
        return self.sum_ps / self.num if self.num else float("nan")

    def quantile_ps(self, q: float) -> float:
        """Quantile ``q`` in [0, 1] from the bins (within 0.5 %); nan without samples."""
        self._fill()
        return float(quantiles_ps(self._counts[None], np.array([self._max_ps]), 0, q)[0])
