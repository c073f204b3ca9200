"""What all figures share: numbers that a screen can show, thinning, look."""

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
"""Of a curve: more than a screen has columns."""
SECONDS: Final = {
    "tickformatstops": [
        {"dtickrange": [1, None], "value": ",~f"},
        {"dtickrange": [None, 1], "value": "~s"},
    ],
    "ticksuffix": "s",
}
"""Axis in seconds whose ticks are ``5ms``, ``2s`` or ``1,000s``: nobody thinks in kiloseconds."""
_TENS_ALONE: Final = 2.5
"""Powers of ten from which on a phone has room for tens only."""
_FEWEST_TICKS: Final = 2
"""With fewer an axis has no scale."""
_EDGE: Final = 0.03
"""Of an axis, beyond its ticks: in the corner the first ones of both axes would overlap."""


def numbers(values: ArrayLike) -> list[float | None]:
    """Five significant digits: what a screen shows, and a tenth of the file; nan is a gap."""
    array = np.asarray(values, dtype=np.float64)
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in array.tolist()]


def escaped(name: str) -> str:
    """Name as plotly shows it: it reads some HTML, but no entities of quotes."""
    return escape(name, quote=False)


def thinned(
    x: NDArray[Any], y: NDArray[Any], most: int = MOST_POINTS
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Not many more than ``most`` points of a curve, with the least and the greatest of each part.

    O(n). The first and the last point stay; nan counts as neither least nor greatest.
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
    """Ticks of a logarithmic axis with ``show`` for words: 1, 2, 5, or tens where it is long.

    Only values above 0 have a place on it; a linear axis where there is none. Where the values lie
    so close that they have no two ticks among them, the axis reaches to the ticks around them.
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
    """Say for the downloaded data what ``axis`` (x or y) is; its ticks bear units themselves."""
    return figure.update_layout(meta={axis: data_title})


def new_figure(x_title: str, y_title: str, *, height: int = 380) -> go.Figure:
    """An empty figure in the look of all, with units in the titles of its axes."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    return laid_out(go.Figure(), x_title, y_title, height=height)


def laid_out(figure: go.Figure, x_title: str, y_title: str, *, height: int = 380) -> go.Figure:
    """The figure with titles of all its axes, and a legend below that a phone has room for."""
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
