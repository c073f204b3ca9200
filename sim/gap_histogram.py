"""Inter-token gaps in logarithmic bins, filled for whole runs of equal steps at once.

A leap of k steps yields k gaps ``a, a + b, a + 2b, ...``, each with the weight of its batch. The
bins are 1 % wide, so a quantile is within 0.5 % of the exact one; count, sum and maximum are
exact. Bin edges are integers, so filling a run or its steps one by one gives equal bins.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_SMALLEST_PS: Final = 1_000_000  # 1 us: all shorter gaps share the first bin


def _edges() -> list[int]:
    edges, edge = [0], _SMALLEST_PS
    while edge < 10**19:  # four months
        edges.append(edge)
        edge = max(edge + 1, edge * 101 // 100)
    return edges


_EDGES: Final = _edges()


class GapHistogram:
    """Weighted samples of gaps in picoseconds; ``counts`` maps a bin to its weight."""

    __slots__ = ("_high", "_last", "_low", "counts", "max_ps", "num", "sum_ps")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.num = 0
        self.sum_ps = 0
        self.max_ps = 0
        self._low, self._high, self._last = 1, 0, 0  # the bin used last

    def add(self, gap_ps: int, weight: int) -> None:
        """Add one gap with a weight; amortised O(1)."""
        self.num += weight
        self.sum_ps += gap_ps * weight
        self.max_ps = max(self.max_ps, gap_ps)
        if not self._low <= gap_ps < self._high:
            self._find(gap_ps)
        self.counts[self._last] += weight

    def add_run(self, first_ps: int, slope_ps: int, num_steps: int, weight: int) -> None:
        """Add the gaps ``first + slope * j`` for ``j`` in ``range(num_steps)``; O(bins touched)."""
        last_ps = first_ps + slope_ps * (num_steps - 1)
        self.num += num_steps * weight
        self.sum_ps += weight * num_steps * (first_ps + last_ps) // 2
        if last_ps > self.max_ps:
            self.max_ps = last_ps
        if self._low <= first_ps and last_ps < self._high:  # the common case: the bin used last
            self.counts[self._last] += num_steps * weight
            return
        done = 0
        while done < num_steps:
            gap_ps = first_ps + slope_ps * done
            if not self._low <= gap_ps < self._high:
                self._find(gap_ps)
            upto = num_steps
            if last_ps >= self._high:
                upto = (self._high - 1 - first_ps) // slope_ps + 1
            self.counts[self._last] += (upto - done) * weight
            done = upto

    def _find(self, gap_ps: int) -> None:
        index = bisect_right(_EDGES, gap_ps) - 1
        self._last, self._low, self._high = index, _EDGES[index], _EDGES[index + 1]
        self.counts.setdefault(index, 0)

    def mean_ps(self) -> float:
        """Mean gap; nan without samples."""
        return self.sum_ps / self.num if self.num else float("nan")

    def quantile_ps(self, q: float) -> float:
        """Quantile ``q`` in [0, 1] from the bins (within 0.5 %); nan without samples."""
        if not self.num:
            return float("nan")
        rank, seen = q * self.num, 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= rank:
                low, high = _EDGES[index], min(_EDGES[index + 1], self.max_ps + 1)
                return (low + high - 1) / 2
        return float(self.max_ps)
