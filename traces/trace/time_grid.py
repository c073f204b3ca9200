"""The grid that arrival times lie on: what a coarse clock, or a replayed window, left of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.trace.order_statistics import BLOCK, blocks, kth_smallest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LEAST_GAPS: Final = 10
_JITTER_SHARE: Final = 100


def gap_blocks(times_ns: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the gaps between sorted times, ``BLOCK`` at a time: traces can be long."""
    for first in range(0, len(times_ns) - 1, BLOCK):
        yield np.diff(times_ns[first : first + BLOCK + 1])


def num_distinct(times_ns: NDArray[np.int64]) -> int:
    """Count distinct values of sorted times."""
    return bool(len(times_ns)) + sum(int(np.count_nonzero(gaps)) for gaps in gap_blocks(times_ns))


def time_grid_ns(times_ns: NDArray[np.int64]) -> tuple[int | None, int]:
    """Return the grid of sorted times, and how far they lie off it at most.

    The grid is the largest span that divides all gaps (then they lie on it), or a larger one
    that they keep to within 1 %: the median gap between distinct times. None where less than two
    are distinct. O(n), memory O(1).
    """
    exact = count = longest = 0
    for gaps in _distinct_gaps(times_ns):
        exact = math.gcd(exact, int(np.gcd.reduce(gaps)))
        count += len(gaps)
        longest = max(longest, int(gaps.max()))
    if not count:
        return None, 0
    coarse = kth_smallest(lambda: _distinct_gaps(times_ns), count // 2, longest)
    if count < _LEAST_GAPS or coarse <= exact:
        return exact, 0
    jitter = 0
    for times in blocks(times_ns):
        beside = (times - times_ns[0]) % coarse
        jitter = max(jitter, int(np.minimum(beside, coarse - beside).max()))
        if jitter > coarse // _JITTER_SHARE:
            return exact, 0
    return coarse, jitter


def _distinct_gaps(times_ns: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for gaps in gap_blocks(times_ns):
        positive = gaps[gaps > 0]
        if len(positive):
            yield positive
