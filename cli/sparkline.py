"""Sketches of a run over time: a row of blocks, each as high as the mean of its stretch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.cli.table import number, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]

BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.:-=+*#"
"""What stands for blocks where the encoding of the output has none."""
WIDTH: Final = 40
_LABEL: Final = 24


def over_time_lines(series: Columns) -> list[str]:
    """Lines on KV memory in use and on requests, over the windows of a run's series table.

    *In use* is what running requests own: neither free nor only cached. The number at the end is
    the highest of the means.
    """
    weights = series["seconds"].tolist()
    end_s = sum(weights)
    if not end_s:
        return []
    used = sum_of(series, "token", "reserved", "internal")
    pool = used + sum_of(series, "external", "cached", "free")
    rows = [("  KV in use", (100 * used / pool).tolist(), " %")]
    rows += [(f"  {name}", series[name].tolist(), "") for name in ("running", "waiting")]
    levels = BLOCKS if can_print(BLOCKS) else ASCII
    lines = [f"{'over time':<{_LABEL}}{'0 s':<{WIDTH - len(seconds(end_s))}}{seconds(end_s)}"]
    for label, values, unit in rows:
        means = resampled(values, weights, WIDTH)
        peak = max(means)
        if label == "  waiting" and peak < 0.005:
            continue
        sketch = sparkline(means, peak, levels)
        lines.append(f"{label:<{_LABEL}}{sketch}  up to {number(float(peak), 3)}{unit}")
    return lines


def sum_of(series: Columns, *states: str) -> NDArray[np.float64]:
    """Bytes in some states, by window."""
    total = np.zeros(len(series["seconds"]))
    for state in states:
        total += series[f"{state}_bytes"]
    return total


def sparkline(values: Sequence[float], top: float, levels: str = BLOCKS) -> str:
    """A character a value, from 0 (the lowest) up to ``top`` (the highest)."""
    steps = len(levels) - 1
    return "".join(levels[round(steps * min(value / top, 1)) if top else 0] for value in values)


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


def can_print(text: str) -> bool:
    """Whether standard output's encoding has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
