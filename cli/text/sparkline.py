"""Sketches of a run over time: a row of blocks, each as high as the mean of its stretch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import SPARKLINE, as_label, joined, paint
from kvsim.sim.comparison.thumbnail import POINTS, in_use, resampled
from kvsim.traces.common.text import closed, cut, number, seconds, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.thumbnail import Columns

BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.:-=+*#"
"""What stands for blocks where the encoding of the output has none."""
_LABEL: Final = 24


def over_time_lines(series: Columns) -> list[str]:
    """Lines on KV memory in use and on requests, over the windows of a run's series table.

    The number at the end of a line is the highest of its means.
    """
    weights = series["seconds"].tolist()
    end_s = sum(weights)
    if not end_s:
        return []
    rows = [("  KV in use", (100 * in_use(series)).tolist(), " %")]
    rows += [(f"  {name}", series[name].tolist(), "") for name in ("running", "waiting")]
    levels = BLOCKS if can_print(BLOCKS) else ASCII
    lines = [axis_line("over time", end_s)]
    for label, values, unit in rows:
        means = resampled(values, weights, POINTS)
        peak = max(means)
        if label == "  waiting" and peak < 0.005:
            continue
        line = sparkline(means, peak, levels)
        high = f"  up to {number(float(peak), 3)}{unit}"
        lines.append(joined(f"{label:<{_LABEL}}", paint(line, SPARKLINE), high))
    return lines


def axis_line(title: str, end_s: float) -> str:
    """The line above sketches: from when to when, and of what the numbers beside them are."""
    end = seconds(end_s)
    return joined(as_label(f"{title:<{_LABEL}}"), f"{'0 s':<{POINTS - len(end)}}{end}  means")


def compared_lines(sketches: Sequence[tuple[str, float, Sequence[float]]]) -> list[str]:
    """Lines on KV memory in use: ``(name, seconds, shares)`` each, on one axis and scale."""
    longest_s = max(end_s for _, end_s, _ in sketches)
    top = max(max(shares) for _, _, shares in sketches)
    if not longest_s:
        return []
    levels = BLOCKS if can_print(BLOCKS) else ASCII
    lines = [axis_line("KV in use", longest_s)]
    for name, end_s, shares in sketches:
        num = max(round(POINTS * end_s / longest_s), 1)
        line = sparkline(resampled(shares, [1.0] * len(shares), num), top, levels)
        high = number(100 * max(shares), 3)
        label = closed(f"{cut(spread(name), _LABEL - 3):<{_LABEL - 2}}")
        lines.append(joined(f"  {label}", paint(line, SPARKLINE), f"  up to {high} %"))
    return lines


def sparkline(values: Sequence[float], top: float, levels: str = BLOCKS) -> str:
    """A character a value, from 0 (the lowest) up to ``top`` (the highest)."""
    steps = len(levels) - 1
    return "".join(levels[round(steps * min(value / top, 1)) if top else 0] for value in values)


def can_print(text: str) -> bool:
    """Whether standard output's encoding has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
