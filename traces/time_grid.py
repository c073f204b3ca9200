"""The grid that arrival times lie on: what a coarse clock, or a replayed window, left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_GAPS: Final = 10
_JITTER_SHARE: Final = 100


def time_grid_ns(distinct_ns: NDArray[np.int64]) -> tuple[int | None, int]:
    """Return the grid of sorted distinct times, and how far they lie off it at most.

    The grid is the largest span that divides all gaps (then they lie on it), or a larger one
    that they keep to within 1 %: the median gap. None for less than two times. O(n log n).
    """
    if len(distinct_ns) < 2:
        return None, 0
    gaps = np.diff(distinct_ns)  # all in place from here on: traces can be long
    exact = int(np.gcd.reduce(gaps))
    middle = len(gaps) // 2
    gaps.partition(middle)
    coarse = int(gaps[middle])
    if len(gaps) < _LEAST_GAPS or coarse <= exact:
        return exact, 0
    del gaps
    beside = distinct_ns - distinct_ns[0]
    beside %= coarse
    beyond = beside > coarse // 2
    np.subtract(coarse, beside, out=beside, where=beyond)
    jitter = int(beside.max())
    if jitter <= coarse // _JITTER_SHARE:
        return coarse, jitter
    return exact, 0
