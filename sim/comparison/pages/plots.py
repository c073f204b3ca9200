"""``comparison.plot``: the charts of a comparison's page as plotly figures for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.comparison.pages import charts as comparison_charts
from kvsim.sim.comparison.pages import rate_charts, thumbnail_charts
from kvsim.sim.report.run_plots import run_panels

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvsim.sim.comparison.comparison import Comparison


class ComparisonPlots:
    """Figures of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison, self._rows = comparison, comparison.rows

    def memory(self) -> go.Figure:
        """Stacked bars of KV memory by state, one bar for each run, beside throughput and TTFT."""
        return comparison_charts.overview_chart(self._rows).figure

    def users(self) -> go.Figure:
        """Latencies, rates and hits: a panel for each metric, a bar for each run, the best marked.

        Raises ``ValueError`` when all of them are 0 or unknown.
        """
        chart = comparison_charts.users_chart(self._rows)
        if isinstance(chart, str):
            raise ValueError(f"there is nothing to draw: {chart}")
        return chart.figure

    def rates(self) -> go.Figure:
        """Goodput, or the sustained rate, against the arrival rate.

        Raises ``ValueError`` when only one rate was run, or no request was served.
        """
        charts = rate_charts.rate_charts(self._rows)
        if not charts:
            raise ValueError(
                "there is nothing to draw: only one rate was run, or no request was served"
            )
        return charts[0].figure

    def kv(self) -> go.Figure:
        """KV memory by state over time, a panel for each run.

        Raises ``ValueError`` when no time passed.
        """
        return self._over_time().memory.figure

    def queue(self) -> go.Figure:
        """Running and waiting requests over time, a panel for each run.

        Raises ``ValueError`` when no time passed.
        """
        return self._over_time().queue.figure

    def latency(self) -> go.Figure:
        """Distributions of latencies, a panel for each run; see :meth:`RunPlots.latency`.

        Raises ``ValueError`` when no run finished a request, or the comparison holds no runs.
        """
        figures: dict[str, go.Figure | None] = {}
        for name, run in self._comparison.runs.items():
            try:
                figures[name] = run.plot.latency()
            except ValueError as error:  # a run without a finished request
                figures[name], why = None, error
        if all(figure is None for figure in figures.values()):
            raise why
        return run_panels(figures)

    def _over_time(self) -> thumbnail_charts.OverTime:
        charts = thumbnail_charts.charts_of(self._rows)
        if charts is None:
            raise ValueError("there is nothing to draw: no time passed")
        return charts
