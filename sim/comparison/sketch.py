"""The course of a run in a few numbers: means of equal stretches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]

POINTS: Final = 40
"""Stretches of a run."""


def in_use(series: Columns) -> NDArray[np.float64]:
    """Share of KV memory that running requests own, by window of a series table.

    What they own is neither free nor only cached.
    """
    used = _bytes(series, "token", "reserved", "internal")
    return used / (used + _bytes(series, "external", "cached", "free"))


def kv_in_use(series: Columns) -> dict[str, object]:
    """``seconds`` of a run, and ``shares``: means of :func:`in_use` over ``POINTS`` stretches."""
    weights = series["seconds"].tolist()
    seconds = sum(weights)
    shares = resampled(in_use(series).tolist(), weights, POINTS) if seconds else [0.0] * POINTS
    return {"seconds": seconds, "shares": shares}


def resampled(values: Sequence[float], weights: Sequence[float], num: int) -> list[float]:
    """Means of ``num`` stretches of equal length; value ``i`` holds for ``weights[i]``."""
    total, means = sum(weights), []
    place, left = 0, weights[0]
    for _ in range(num):
        need, area = total / num, 0.0
        while need > 0 and place < len(values):
            part = min(need, left)
            area += part * values[place]
            need, left = need - part, left - part
            if left <= 0:
                place += 1
                left = weights[place] if place < len(values) else 0.0
        means.append(area * num / total)
    return means


def _bytes(series: Columns, *states: str) -> NDArray[np.float64]:
    """Bytes in some states, by window."""
    total = np.zeros(len(series["seconds"]))
    for state in states:
        total += series[f"{state}_bytes"]
    return total
