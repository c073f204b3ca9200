"""One figure of each run of a comparison as panels of one figure, on shared axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.report.figures import escaped, log_ticks
from kvsim.sim.report.multiples import ACROSS, place_of, small_multiples
from kvsim.traces.common.readable import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import plotly.graph_objects as go

_INNER_PX: Final = 150
_AROUND_PX: Final = 60


def run_panels(figures: Mapping[str, go.Figure | None]) -> go.Figure:
    """Panels named by the runs, in their order; one legend for all of them.

    ``figures``: of one kind, with one pair of axes each; ``None`` is an empty panel, at least one
    is none. A logarithmic axis is in seconds; one is enough for all to be.
    """
    titles = [escaped(name) for name in figures]
    figure = small_multiples(titles, _INNER_PX, _AROUND_PX, shared_x=True, below_px=80)
    drawn = [one for one in figures.values() if one is not None]
    named: set[str] = set()
    logarithmic = [one for one in drawn if one.layout.xaxis.type == "log"]
    axes = (logarithmic or drawn)[0].layout
    for place, one in enumerate(figures.values()):
        where = place_of(place, len(figures))
        for curve in () if one is None else one.data:
            curve.update(legendgroup=curve.name, showlegend=curve.name not in named)
            named.add(curve.name)
            figure.add_trace(curve, **where)
        if place >= len(figures) - ACROSS:  # the last of its column
            figure.update_xaxes(title_text=axes.xaxis.title.text, **where)
    figure.update_yaxes(title_text=axes.yaxis.title.text, col=1)
    if logarithmic:
        values_s = [value for curve in figure.data for value in curve.x]
        figure.update_xaxes(**log_ticks(values_s, seconds))
    return figure
