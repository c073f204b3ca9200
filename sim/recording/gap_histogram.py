"""Inter-token gaps in logarithmic bins, filled for whole runs of equal steps at once.

A leap of k steps yields k gaps ``a, a + b, a + 2b, ...``, each with the weight of its batch and
ending where the next begins. The bins are 1 % wide, so a quantile is within 0.5 % of the exact one;
count, sum and maximum are exact. Edges of bins and windows are integers, so filling a run or its
steps one by one gives equal counts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.cost.equal_steps import steps_ps, steps_to_reach
from kvsim.sim.recording.gap_bins import EDGES, NUM_BINS, bins_of, quantiles_ps
from kvsim.sim.recording.gap_windows import GapWindows
from kvsim.sim.recording.time_windows import FIRST_WIDTH_PS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvsim.sim.recording.gap_windows import GapCourse

_ROWS_KEPT: Final = 8192


class GapHistogram:
    """Weighted samples of gaps in picoseconds; ``counts`` maps a bin to its weight.

    Runs are kept as rows and filled in by thousands, as numpy does that a few times faster.
    ``width_ps``: first width of a time window.
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

    def course(self, width_ps: int, num_windows: int, stride: int = 1) -> GapCourse:
        """Gaps by the stretch in which they end: each ``stride`` windows of ``width_ps``.

        ``width_ps`` is the first width or a doubling of it that the whole run fits in.
        """
        self._fill()
        return self._windows.course(width_ps, num_windows, stride)

    def _fill(self) -> None:
        """Count the rows kept; sums are split into halves of 20 bits so that int64 holds them."""
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
        """A run cut at the edges of windows; parts as in ``_count``."""
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
