"""Inter-token gaps in logarithmic bins, filled for whole runs of equal steps at once.

A leap of k steps yields k gaps ``a, a + b, a + 2b, ...``, each with the weight of its batch. The
bins are 1 % wide, so a quantile is within 0.5 % of the exact one; count, sum and maximum are
exact. Bin edges are integers, so filling a run or its steps one by one gives equal bins.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALLEST_PS: Final = 1_000_000  # 1 us: all shorter gaps share the first bin


def _edges() -> NDArray[np.int64]:
    edges, edge = [0], _SMALLEST_PS
    while edge < 2**63:  # a hundred days
        edges.append(edge)
        edge = max(edge + 1, edge * 101 // 100)
    return np.array(edges, dtype=np.int64)


_EDGES: Final = _edges()
_ROWS_KEPT: Final = 8192


class GapHistogram:
    """Weighted samples of gaps in picoseconds; ``counts`` maps a bin to its weight.

    Runs are kept as rows and filled in by thousands, as numpy does that a few times faster.
    """

    __slots__ = ("_counts", "_max_ps", "_num", "_rows", "_sum_ps")

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []
        self._counts = np.zeros(len(_EDGES), dtype=np.int64)
        self._num = 0
        self._sum_ps = 0
        self._max_ps = 0

    def add(self, gap_ps: int, weight: int) -> None:
        """Add one gap with a weight; amortised O(1)."""
        self.add_run(gap_ps, 0, 1, weight)

    def add_run(self, first_ps: int, slope_ps: int, num_steps: int, weight: int) -> None:
        """Add the gaps ``first + slope * j`` for ``j`` in ``range(num_steps)``; O(bins touched)."""
        rows = self._rows
        rows.append((first_ps, slope_ps, num_steps, weight))
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

    def _fill(self) -> None:
        """Count the rows kept; sums are split into halves of 20 bits so that int64 holds them."""
        if not self._rows:
            return
        flat = np.fromiter(chain.from_iterable(self._rows), np.int64, 4 * len(self._rows))
        first, slope, steps, weight = flat.reshape(-1, 4).T
        self._rows.clear()
        last = first + slope * (steps - 1)
        samples = steps * weight
        pairs = samples * (steps - 1) // 2
        for value, times in ((first, samples), (slope, pairs)):
            self._sum_ps += int(((value >> 20) * times).sum()) << 20
            self._sum_ps += int(((value & 0xFFFFF) * times).sum())
        self._num += int(samples.sum())
        self._max_ps = max(self._max_ps, int(last.max()))
        low = np.searchsorted(_EDGES, first, side="right") - 1
        high = np.searchsorted(_EDGES, last, side="right") - 1
        np.add.at(self._counts, low[low == high], samples[low == high])
        for row in np.flatnonzero(low != high):
            self._spread(*(int(column[row]) for column in (first, slope, steps, weight, low)))

    def _spread(self, first_ps: int, slope_ps: int, steps: int, weight: int, index: int) -> None:
        """Count a run that reaches over several bins, bin by bin."""
        done = 0
        while done < steps:
            upto = min(steps, (int(_EDGES[index + 1]) - 1 - first_ps) // slope_ps + 1)
            self._counts[index] += (upto - done) * weight
            done = upto
            index += 1

    def mean_ps(self) -> float:
        """Mean gap; nan without samples."""
        return self.sum_ps / self.num if self.num else float("nan")

    def quantile_ps(self, q: float) -> float:
        """Quantile ``q`` in [0, 1] from the bins (within 0.5 %); nan without samples."""
        if not self.num:
            return float("nan")
        rank, seen = q * self.num, 0
        for index, count in self.counts.items():
            seen += count
            if seen >= rank:
                low, high = int(_EDGES[index]), min(int(_EDGES[index + 1]), self.max_ps + 1)
                return (low + high - 1) / 2
        return float(self.max_ps)
