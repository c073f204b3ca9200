"""The part of a run's time that charts show: a long and almost empty end is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_FEW: Final = 0.02
"""Share of the largest number of requests below which a window counts as almost empty."""
_LEAST_FILLED: Final = 0.5
"""Share of an axis that must be filled; otherwise the axis is cut."""
_SPACE: Final = 1.03


class TimeAxis(NamedTuple):
    """Start and end of an axis in seconds; ``note`` says what was cut, if anything was."""

    start_s: float
    end_s: float
    note: str = ""


def time_axis(start_s: Numbers, width_s: Numbers, requests: Numbers) -> TimeAxis:
    """Return the axis of windows that start at ``start_s`` and last ``width_s``.

    ``requests`` is the mean number of requests in each window. The axis ends where almost no
    requests are left, if they fill less than half of the rest. It starts with the first requests,
    if the time before them is longer.
    """
    ends_s = start_s + width_s
    first_s, last_s = float(start_s[0]), float(ends_s[-1])
    full = np.flatnonzero(requests > _FEW * requests.max())
    if not len(full):
        return TimeAxis(first_s, last_s)
    busy_from_s, busy_to_s = float(start_s[full[0]]), float(ends_s[full[-1]])
    if busy_to_s - busy_from_s < _LEAST_FILLED * (busy_to_s - first_s):
        first_s = busy_from_s
    if busy_to_s - first_s >= _LEAST_FILLED * (last_s - first_s):
        return TimeAxis(first_s, last_s)
    most = number(float(requests[full[-1] + 1 :].max()), 3)
    end_s = first_s + _SPACE * (busy_to_s - first_s)
    return TimeAxis(
        first_s,
        end_s,
        f"The axis ends at {seconds(end_s)}. After {seconds(busy_to_s)}, at most {most} requests "
        f"are in the engine on average, until the run ends at {seconds(last_s)}. Double-click the "
        "chart to see the whole run.",
    )
