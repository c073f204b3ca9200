"""The k-th smallest of many numbers, exactly, without sorting or copying them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

BLOCK: Final = 1 << 16
_DIGIT_BITS: Final = 16


def blocks(values: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield views of ``BLOCK`` values, so that what is made of one is small."""
    for first in range(0, len(values), BLOCK):
        yield values[first : first + BLOCK]


def kth_smallest(parts: Callable[[], Iterable[NDArray[np.int64]]], k: int, most: int) -> int:
    """Return the value that stands at place ``k`` (from 0) of all values in increasing order.

    ``parts()`` yields the values, at least k + 1 and none below 0 or above ``most``; it is called
    once for each 16 bits of ``most``, which are found one digit after another. O(n), memory O(1).
    """
    shift = max(most.bit_length() - 1, 0) // _DIGIT_BITS * _DIGIT_BITS
    low = 0
    while True:
        counts = np.zeros(1 << _DIGIT_BITS, dtype=np.int64)
        for part in parts():
            digits = (part - low) >> shift
            digits = digits[(digits >= 0) & (digits < len(counts))]
            counts += np.bincount(digits, minlength=len(counts))
        upto = np.cumsum(counts)
        digit = int(np.searchsorted(upto, k, side="right"))
        k -= int(upto[digit] - counts[digit])
        low += digit << shift
        if not shift:
            return low
        shift -= _DIGIT_BITS


def percentile(values: NDArray[np.int64], percent: float) -> float:
    """Interpolate linearly between the two values around ``percent`` of the way; none below 0."""
    place = (len(values) - 1) * percent / 100
    below = int(place)
    most = int(values.max())
    low = kth_smallest(lambda: blocks(values), below, most)
    if place == below:
        return float(low)
    high = kth_smallest(lambda: blocks(values), below + 1, most)
    return low + (high - low) * (place - below)
