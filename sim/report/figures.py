"""What all figures share: numbers that a screen can show, thinning, look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from numpy.typing import ArrayLike, NDArray

MOST_POINTS: Final = 2000
"""Of a curve: more than a screen has columns."""
_LEGEND_PX: Final = 60
"""Below the axis: room for numbers and title."""


def numbers(values: ArrayLike) -> list[float | None]:
    """Five significant digits: what a screen shows, and a tenth of the file; nan is a gap."""
    array = np.asarray(values, dtype=np.float64)
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in array.tolist()]


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
        legend={"orientation": "h", "y": -_LEGEND_PX / (height - 80), "yanchor": "top", "x": 0},
        hovermode="x unified",
    )
    figure.update_xaxes(title_text=x_title)
    figure.update_yaxes(title_text=y_title, rangemode="tozero")
    return figure
