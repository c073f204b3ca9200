"""One figure of each run of a comparison as panels of one figure, on shared axes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kvsim.sim.readable import seconds
from kvsim.sim.report.figures import laid_out, log_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import plotly.graph_objects as go

_ACROSS: Final = 2
_PANEL_PX: Final = 210
_MARGIN_PX: Final = 90
_GAP_PX: Final = 45
_TITLE_PX: Final = 13


def run_panels(figures: Mapping[str, go.Figure | None]) -> go.Figure:
    """Panels named by the runs, in their order, two side by side; one legend for all of them.

    ``figures``: of one kind, with one pair of axes each; ``None`` is an empty panel, at least one
    is none. A logarithmic axis is in seconds.
    """
    from plotly.subplots import make_subplots  # noqa: PLC0415 - only a report needs plotly

    across = min(_ACROSS, len(figures))
    down = -(-len(figures) // across)
    height = down * _PANEL_PX + _MARGIN_PX
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[escape(name) for name in figures],
        horizontal_spacing=0.04,
        vertical_spacing=min(_GAP_PX / height, 1 / max(down - 1, 1)),
    )
    laid_out(figure, "", "", height=height).update_annotations(font_size=_TITLE_PX)
    drawn = [one for one in figures.values() if one is not None]
    named: set[str] = set()
    axes = drawn[0].layout
    for place, one in enumerate(figures.values()):
        where = {"row": place // across + 1, "col": place % across + 1}
        for curve in () if one is None else one.data:
            curve.update(legendgroup=curve.name, showlegend=curve.name not in named)
            named.add(curve.name)
            figure.add_trace(curve, **where)
        if place >= len(figures) - across:  # the last of its column
            figure.update_xaxes(title_text=axes.xaxis.title.text, showticklabels=True, **where)
    figure.update_yaxes(title_text=axes.yaxis.title.text, col=1)
    if axes.xaxis.type == "log":
        edges = [value for curve in figure.data for value in curve.x if value]
        figure.update_xaxes(**log_ticks(min(edges), max(edges), seconds))
    if len(figures) < down * across:
        where = {"row": down, "col": across}
        figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
    return figure
