"""A run in few numbers over time, so that a page can draw many runs beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvsim.sim.documents.comparison import KVInUse
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.report.figures import thinned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    from collections.abc import Sequence

    Columns = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]


MOST_POINTS: Final = 120
"""Of a curve."""


class Thumbnail(NamedTuple):
    """Points of a run's time windows, with the least and the greatest of each stretch.

    ``kv_percent`` by state and of the pool, all at the same ``kv_s``: what is neither free nor only
    cached has its extremes there. ``running`` and ``waiting`` (requests) have times of their own.
    ``waited_s``: request-seconds of waiting in the whole run. Empty where no time passed.
    """

    kv_s: Numbers
    kv_percent: dict[str, Numbers]
    running: tuple[Numbers, Numbers]
    waiting: tuple[Numbers, Numbers]
    waited_s: float


def thumbnail_of(series: Mapping[str, NDArray[Any]]) -> Thumbnail:
    """Thumbnail of a series table (docs/metrics.md)."""
    covered = np.flatnonzero(series["seconds"] > 0)
    waited_s = float(series["waiting"][covered] @ series["seconds"][covered])
    starts_s, seconds = series["start_s"][covered], series["seconds"][covered]
    middle_s = starts_s + seconds / 2
    if len(covered) == 1:  # a point would not be seen: from its start to its end
        covered = covered.repeat(2)
        middle_s = np.concatenate([starts_s, starts_s + seconds])
    held = {state: series[f"{state}_bytes"][covered] for state in STATES}
    pool = np.sum([*held.values()], axis=0)
    in_use = pool - held["free"] - held["cached"]
    places, _ = thinned(np.arange(len(covered)), in_use, MOST_POINTS)
    return Thumbnail(
        kv_s=middle_s[places],
        kv_percent={name: 100 * (part / pool)[places] for name, part in held.items()},
        running=thinned(middle_s, series["running"][covered], MOST_POINTS),
        waiting=thinned(middle_s, series["waiting"][covered], MOST_POINTS),
        waited_s=waited_s,
    )


POINTS: Final = 40
"""Stretches of a run."""


def in_use(series: Columns) -> NDArray[np.float64]:
    """Share of KV memory that running requests own, by window of a series table.

    What they own is neither free nor only cached.
    """
    used = _bytes(series, "token", "reserved", "internal")
    return used / (used + _bytes(series, "external", "cached", "free"))


def kv_in_use(series: Columns) -> KVInUse:
    """Length of a run, and means of :func:`in_use` over ``POINTS`` stretches."""
    weights = series["seconds"].tolist()
    seconds = sum(weights)
    shares = resampled(in_use(series).tolist(), weights, POINTS) if seconds else [0.0] * POINTS
    return KVInUse(seconds=seconds, shares=shares)


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
