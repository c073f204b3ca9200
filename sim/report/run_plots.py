"""``run.plot``: the charts of a run's page as plotly figures, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.report import event_charts, latency_charts, load_charts
from kvsim.sim.report.run_view import RunView

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvsim.sim.report.chart import Chart
    from kvsim.sim.run.run import Run


class RunPlots:
    """Figures of one run. Each raises ``ValueError`` where there is nothing to draw."""

    def __init__(self, run: Run) -> None:
        self._view = RunView(run)

    def kv(self) -> go.Figure:
        """KV memory by its six states over time."""
        return _figure(load_charts.memory_chart(self._view))

    def queue(self) -> go.Figure:
        """Running requests, and waiting ones by what they wait for."""
        return _figure(load_charts.queue_chart(self._view))

    def latency(self) -> go.Figure:
        """Distributions of TTFT, TPOT, ITL and E2E."""
        return _figure(latency_charts.distribution_chart(self._view))

    def latency_over_time(self) -> go.Figure:
        """Percentiles of TTFT, TPOT and E2E by arrival."""
        return _figure(latency_charts.course_chart(self._view))

    def gaps_over_time(self) -> go.Figure:
        """Percentiles of the gaps between tokens (ITL), by when the later token came."""
        return _figure(latency_charts.gap_chart(self._view))

    def hits(self) -> go.Figure:
        """Prefix cache hit rate by arrival."""
        return _figure(event_charts.hit_chart(self._view))

    def preemptions(self) -> go.Figure:
        """Preemptions over time."""
        return _figure(event_charts.preemption_chart(self._view))

    def swapping(self) -> go.Figure:
        """Bytes on the host, and moved there and back."""
        return _figure(event_charts.swap_chart(self._view))

    def steps(self) -> go.Figure:
        """Share of time by what steps spend it on."""
        return _figure(event_charts.step_chart(self._view))


def _figure(chart: Chart | str) -> go.Figure:
    if isinstance(chart, str):
        raise ValueError(f"there is nothing to draw: {chart}")
    return chart.figure
