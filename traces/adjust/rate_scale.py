"""Faster or slower arrivals: times divided exactly, by integer arithmetic."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace

_LATEST_NS: Final = 2**63 // 1000 - 1  # in ps it still fits 64 bits
_NS_PER_DAY: Final = 86_400 * 10**9
_RATE: Final = re.compile(
    r"[-+0-9._/]{1,40}(?:[eE][-+]?[0-9]{1,2})?"
)  # 1e-999999999 takes for ever


def parse_rate_scale(text: str) -> Fraction:
    """Read a rate factor as written: ``2``, ``1.5``, ``3/4``; ValueError unless above 0."""
    try:
        scale = Fraction(text) if _RATE.fullmatch(text) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        scale = Fraction(0)
    if scale <= 0:
        raise ValueError(f"rate scale {text!r} must be a number above 0, such as 2, 0.5 or 3/4")
    return scale


def scale_rate(trace: Trace, scale: Fraction) -> Trace:
    """Trace whose requests arrive ``scale`` times as fast; each time is rounded down to a ns.

    Everything but the arrival times is shared with ``trace``; order and ties stay. ValueError
    where the last arrival would be later than the engine's clock can say.
    """
    up, down = scale.denominator, scale.numerator
    latest_ns = int(trace.arrival_ns[-1]) * up if len(trace) else 0
    if latest_ns // down > _LATEST_NS:
        days = latest_ns // down // _NS_PER_DAY
        most = f"at most {_LATEST_NS // _NS_PER_DAY} days can be simulated"
        if scale == 1:
            raise ValueError(
                f"the last request arrives after {days:,} days; {most}: take a part of the trace "
                "(kvsim trace slice), or a rate scale above 1"
            )
        raise ValueError(
            f"rate scale {scale} makes the last request arrive after {days:,} days; {most}"
        )
    if scale == 1:
        return trace
    if max(latest_ns, down) < 2**63:
        arrival_ns = trace.arrival_ns * up // down
    else:  # beyond int64 on the way: exact Python integers
        arrival_ns = np.array([int(t) * up // down for t in trace.arrival_ns], dtype=np.int64)
    return replace(trace, arrival_ns=arrival_ns)
