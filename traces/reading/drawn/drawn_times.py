"""Arrivals that the user asked to draw, in place of the file's or because it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.traces.reading.wishes import Wishes
    from kvsim.traces.trace.receipt import Receipt


def draw_times(
    receipt: Receipt,
    wishes: Wishes,
    columns: Mapping[str, NDArray[Any]],
    arrival_ns: NDArray[np.int64],
    time_unit: str,
    *,
    has_times: bool,
) -> tuple[NDArray[np.int64], str]:
    """Return arrivals by the law asked for and what they are in; without one, those given.

    Raises
    ------
    TraceError
        Requests follow each other, or neither law nor file says a rate.
    """
    rule = wishes.arrivals
    if rule is None:
        receipt.has_times = has_times
        return arrival_ns, time_unit
    if "after_request" in columns and (columns["after_request"] >= 0).any():
        raise TraceError(
            f"{receipt.path}: --arrivals {rule} draws each request's time alone, but requests of "
            "this trace follow each other; keep the recorded times (--rate-scale changes their "
            "rate)"
        )
    if rule.rate_per_s is None:
        span_ns = int(arrival_ns[-1])
        if not has_times or not span_ns:
            raise TraceError(
                f"{receipt.path}: --arrivals {rule} needs a rate, and the file's times say none: "
                "add --rate R (requests per second)"
            )
        rule = rule.at((len(arrival_ns) - 1) * 10**9 / span_ns)
    receipt.notes.append(f"arrivals drawn by {rule}, not those of the file")
    receipt.epoch = None
    return rule.times_ns(len(arrival_ns), wishes.rngs[0]), f"ns, drawn by {rule}"
