"""``run.plot``: the charts of a run's page as plotly figures, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.report import event_charts, latency_charts, load_charts
from kvsim.sim.report.figures import escaped, log_ticks
from kvsim.sim.report.multiples import ACROSS, place_of, small_multiples
from kvsim.sim.report.run_page import RunView
from kvsim.traces.common.text import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import plotly.graph_objects as go

    from kvsim.sim.report.chart import Chart
    from kvsim.sim.run.run import Run


_INNER_PX: Final = 150
_AROUND_PX: Final = 60


def run_panels(figures: Mapping[str, go.Figure | None]) -> go.Figure:
    """Return one panel for each run, in order, with one legend.

    ``figures``: figures of the same kind with one pair of axes each. ``None`` is an empty panel; at
    least one figure is not ``None``. A logarithmic axis is in seconds. If one figure has such an
    axis, all panels have it.
    """
    titles = [escaped(name) for name in figures]
    figure = small_multiples(
        titles, _INNER_PX, _AROUND_PX, shared_x=True, shared_y=True, below_px=80
    )
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


class RunPlots:
    """Figures of one run. Each raises ``ValueError`` when there is nothing to draw."""

    def __init__(self, run: Run) -> None:
        self._view = RunView(run)

    def kv(self) -> go.Figure:
        """KV memory by state over time."""
        return _figure(load_charts.memory_chart(self._view))

    def queue(self) -> go.Figure:
        """Running requests, and waiting requests by what they wait for."""
        return _figure(load_charts.queue_chart(self._view))

    def latency(self) -> go.Figure:
        """Distributions of TTFT, TPOT, ITL and E2E."""
        return _figure(latency_charts.distribution_chart(self._view))

    def latency_over_time(self) -> go.Figure:
        """Percentiles of TTFT, TPOT and E2E by arrival."""
        return _figure(latency_charts.latency_chart(self._view))

    def gaps_over_time(self) -> go.Figure:
        """Percentiles of the gaps between tokens (ITL), by the time of the later token."""
        return _figure(latency_charts.gap_chart(self._view))

    def hits(self) -> go.Figure:
        """Prefix cache hit rate by arrival."""
        return _figure(event_charts.hit_chart(self._view))

    def preemptions(self) -> go.Figure:
        """Preemptions over time."""
        return _figure(event_charts.preemption_chart(self._view))

    def swapping(self) -> go.Figure:
        """Bytes on the host, and bytes swapped out and in."""
        return _figure(event_charts.swap_chart(self._view))

    def steps(self) -> go.Figure:
        """Share of time by part of the step."""
        return _figure(event_charts.step_chart(self._view))


def _figure(chart: Chart | str) -> go.Figure:
    if isinstance(chart, str):
        raise ValueError(f"there is nothing to draw: {chart}")
    return chart.figure
