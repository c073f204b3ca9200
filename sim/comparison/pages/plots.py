"""``comparison.plot``: the charts of a comparison's page as plotly figures, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.comparison.pages import charts as comparison_charts
from kvsim.sim.comparison.pages import rate_charts, thumbnail_charts
from kvsim.sim.report.run_plots import run_panels

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.report.chart import Chart


class ComparisonPlots:
    """Figures of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison, self._rows = comparison, comparison.rows

    def memory(self) -> go.Figure:
        """Share of KV memory by state, one panel a state, one bar a run."""
        return comparison_charts.memory_chart(self._rows).figure

    def users(self) -> go.Figure:
        """Latencies, rates and hits, one panel a metric, one bar a run, the best marked.

        Raises ``ValueError`` where all of them are 0 or unknown.
        """
        chart = comparison_charts.users_chart(self._rows)
        if isinstance(chart, str):
            raise ValueError(f"there is nothing to draw: {chart}")
        return chart.figure

    def rates(self) -> go.Figure:
        """Goodput, or the sustained rate, against the rate of arrivals.

        Raises ``ValueError`` where only one rate was run, or nothing was served.
        """
        charts = rate_charts.rate_charts(self._rows)
        if not charts:
            raise ValueError(
                "there is nothing to draw: only one rate was run, or no request was served"
            )
        return charts[0].figure

    def kv(self) -> go.Figure:
        """KV memory by its six states over time, a panel a run on shared axes.

        Raises ``ValueError`` where no time passed.
        """
        return self._courses()[0].figure

    def queue(self) -> go.Figure:
        """Running and waiting requests over time, a panel a run on shared axes.

        Raises ``ValueError`` where no time passed.
        """
        return self._courses()[1].figure

    def latency(self) -> go.Figure:
        """Distributions of latencies, a panel a run; see :meth:`RunPlots.latency`.

        Raises ``ValueError`` where no run finished a request, or the comparison holds no runs.
        """
        figures: dict[str, go.Figure | None] = {}
        for name, run in self._comparison.runs.items():
            try:
                figures[name] = run.plot.latency()
            except ValueError as error:  # it has nothing to draw
                figures[name], why = None, error
        if all(figure is None for figure in figures.values()):
            raise why
        return run_panels(figures)

    def _courses(self) -> list[Chart]:
        charts = thumbnail_charts.thumbnail_charts(self._rows)
        if not charts:
            raise ValueError("there is nothing to draw: no time passed")
        return charts
