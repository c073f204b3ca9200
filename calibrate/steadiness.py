"""How steady the machine was while it was measured, in words."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.measure.raw_points import point_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDE: Final = 0.1
_MANY: Final = 0.2


def steadiness(measurement: Mapping[str, Any]) -> str:
    """Share of the repeats that were taken again, and how far the clock moved beside the others.

    ``measurement`` is that of a profile.
    """
    timings = [point_of(row)[1] for row in measurement["points"]]
    lost = sum(timing.discarded for timing in timings)
    taken = lost + sum(len(timing.times_us) for timing in timings)
    anchors_us = [timing.anchor_us for timing in timings if timing.anchor_us]
    moved = 100 * (max(anchors_us) / min(anchors_us) - 1) if anchors_us else 0.0
    clock = f"from point to point the clock moved by {moved:.0f} %"
    if not lost:
        return f"none of {taken:,} repeats was taken again; {clock}"
    return (
        f"{lost:,} of {taken:,} repeats ({100 * lost / taken:.1f} %) were taken again, as fixed "
        f"work beside them was slower; {clock}"
    )


def spread_of_repeats(measurement: Mapping[str, Any]) -> str:
    """How far the repeats of a point lie apart; ``measurement`` is that of a profile."""
    spreads = [point_of(row)[1].spread for row in measurement["points"]]
    share = sum(spread > _WIDE for spread in spreads) / len(spreads)
    text = f"{100 * statistics.median(spreads):.1f} % apart at the median point"
    if share > _MANY:
        text += (
            f"; over {100 * _WIDE:g} % at {100 * share:.0f} % of the points: perhaps other work "
            "beside"
        )
    return text
