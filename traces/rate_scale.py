"""Faster or slower arrivals: times divided exactly, by integer arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kvsim.traces.trace import Trace


def parse_rate_scale(text: str) -> Fraction:
    """Read a rate factor as written: ``2``, ``1.5``, ``3/4``; ValueError unless above 0."""
    try:
        scale = Fraction(text)
    except (ValueError, ZeroDivisionError):
        scale = Fraction(0)
    if scale <= 0:
        raise ValueError(f"rate scale {text!r} must be a number above 0, such as 2, 0.5 or 3/4")
    return scale


def scale_rate(trace: Trace, scale: Fraction) -> Trace:
    """Trace whose requests arrive ``scale`` times as fast; each time is rounded down to a ns.

    Everything but the arrival times is shared with ``trace``; order and ties stay.
    """
    if scale == 1:
        return trace
    up, down = scale.denominator, scale.numerator
    latest_ns = int(trace.arrival_ns[-1]) * up if len(trace) else 0
    if max(latest_ns, down) < 2**63:
        arrival_ns = trace.arrival_ns * up // down
    else:  # beyond int64 on the way: exact Python integers
        arrival_ns = np.array([int(t) * up // down for t in trace.arrival_ns], dtype=np.int64)
    return replace(trace, arrival_ns=arrival_ns)
