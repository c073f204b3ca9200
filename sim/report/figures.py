"""Parts that all figures share: rounded numbers, thinning, axes and layout."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import plotly.graph_objects as go
    from numpy.typing import ArrayLike, NDArray

MOST_POINTS: Final = 2000
"""Largest number of points of a curve; a screen has fewer columns."""
SECONDS: Final = {
    "tickformatstops": [
        {"dtickrange": [1, None], "value": ",~f"},
        {"dtickrange": [None, 1], "value": "~s"},
    ],
    "ticksuffix": "s",
}
"""Axis in seconds with ticks such as ``5ms``, ``2s`` or ``1,000s``, and no kiloseconds."""
_TENS_ALONE: Final = 2.5
"""Number of decades from which a phone has room only for powers of ten."""
_FEWEST_TICKS: Final = 2
"""Smallest number of ticks from which a reader can see the scale of an axis."""
_EDGE: Final = 0.03
"""Part of an axis beyond its ticks, so that the first labels of two axes do not overlap."""


def numbers(values: ArrayLike) -> list[float | None]:
    """Return the values with five significant digits, which keep the file small; nan is a gap."""
    array = np.asarray(values, dtype=np.float64)
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in array.tolist()]


def escaped(name: str) -> str:
    """Return a name as plotly shows it: plotly reads some HTML, but no entities of quotes."""
    return escape(name, quote=False)


def thinned(
    x: NDArray[Any], y: NDArray[Any], most: int = MOST_POINTS
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return about ``most`` points of a curve, with the minimum and maximum of each part; O(n).

    The first and the last point stay. A nan is neither minimum nor maximum.
    """
    if len(y) <= most:
        return x, y
    edges = np.linspace(0, len(y), max(most // 2, 1) + 1).astype(np.int64)[:-1]
    kept = {0, len(y) - 1}
    for start, stop in zip(edges, [*edges[1:], len(y)], strict=True):
        part = y[start:stop]
        if np.isnan(part).all():
            kept.add(int(start))
        else:
            kept |= {int(start + np.nanargmin(part)), int(start + np.nanargmax(part))}
    places = np.array(sorted(kept))
    return x[places], y[places]


def log_ticks(values: Iterable[float | None], show: Callable[[float], str]) -> dict[str, object]:
    """Return ticks of a logarithmic axis at 1, 2 and 5, or at powers of ten on a long axis.

    ``show`` makes the labels. Values of 0 or below are left out; without other values the axis is
    linear. If there are fewer than two ticks among the values, the axis reaches to the next ticks.
    """
    positive = [value for value in values if value is not None and value > 0]
    if not positive:
        return {"type": "linear"}
    least, most = min(positive), max(positive)
    steps = (1, 2, 5) if most < 10**_TENS_ALONE * least else (1,)
    exponents = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [float(f"{step}e{exponent}") for exponent in exponents for step in steps]
    axis: dict[str, object] = {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [show(tick) for tick in ticks],
    }
    if sum(least <= tick <= most for tick in ticks) < _FEWEST_TICKS:
        below = max((tick for tick in ticks if tick < least), default=least / 2)
        above = min((tick for tick in ticks if tick > most), default=2 * most)
        space = _EDGE * math.log10(above / below)
        axis["range"] = [math.log10(below) - space, math.log10(above) + space]
    return axis


def in_seconds(figure: go.Figure, axis: str, data_title: str) -> go.Figure:
    """Name ``axis`` (x or y) for the downloaded data; its ticks have their own units."""
    return figure.update_layout(meta={axis: data_title})


def new_figure(x_title: str, y_title: str, *, height: int = 380) -> go.Figure:
    """Return an empty figure in the common layout, with units in the titles of its axes."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    return laid_out(go.Figure(), x_title, y_title, height=height)


def laid_out(figure: go.Figure, x_title: str, y_title: str, *, height: int = 380) -> go.Figure:
    """Return the figure with titles of all axes, and a legend below that fits on a phone."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 15, "t": 30, "b": 50},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        hovermode="x unified",
    )
    figure.update_xaxes(title_text=x_title, title_standoff=6, automargin=True)
    figure.update_yaxes(title_text=y_title, title_standoff=4, automargin=True, rangemode="tozero")
    return figure
