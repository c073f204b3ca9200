"""``comparison.plot``: the charts of a comparison's page as plotly figures, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.report import comparison_charts, course_charts, rate_charts

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvsim.sim.comparison import Comparison
    from kvsim.sim.report.chart import Chart


class ComparisonPlots:
    """Figures of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._rows = comparison.rows

    def memory(self) -> go.Figure:
        """Share of KV memory by state, one panel a state, one bar a run."""
        return comparison_charts.memory_chart(self._rows).figure

    def users(self) -> go.Figure:
        """Latencies, rates and hits, one panel a metric, one bar a run, the best marked.

        Raises ``ValueError`` where no request was served.
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

    def memory_over_time(self) -> go.Figure:
        """KV memory by state over time, one panel a run.

        Raises ``ValueError`` where no time passed.
        """
        return self._courses()[0].figure

    def queue_over_time(self) -> go.Figure:
        """Running and waiting requests over time, one panel a run.

        Raises ``ValueError`` where no time passed.
        """
        return self._courses()[1].figure

    def _courses(self) -> list[Chart]:
        charts = course_charts.course_charts(self._rows)
        if not charts:
            raise ValueError("there is nothing to draw: no time passed")
        return charts
