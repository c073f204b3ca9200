"""The page of a run: what binds, what KV memory holds, which requests wait, and latencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.sim.metrics.request_columns import RequestColumns
from kvsim.sim.metrics.tables import series_table
from kvsim.sim.report.event_charts import hit_chart, preemption_chart, step_chart, swap_chart
from kvsim.sim.report.facts import goodput_text, request_counts, run_facts, throughput_text
from kvsim.sim.report.figures import numbers
from kvsim.sim.report.glance_chart import binding_text, glance_chart, memory_text
from kvsim.sim.report.latency_charts import distribution_chart, gap_chart, latency_chart
from kvsim.sim.report.load_charts import memory_chart, queue_chart
from kvsim.sim.report.page import Head, bullets, page
from kvsim.sim.report.time_axis import time_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kvsim.sim.recording.gaps import GapSeries
    from kvsim.sim.report.chart import Chart
    from kvsim.sim.report.page import Block
    from kvsim.sim.report.time_axis import TimeAxis
    from kvsim.sim.run.run import Run


_MOST_PARTS: Final = 120
_FEWEST_REQUESTS: Final = 20
"""Mean number of requests in a group: its percentiles need so many requests."""


@dataclass(frozen=True)
class RunView:
    """A run as charts read it. Each property is computed on first use."""

    run: Run

    @cached_property
    def series(self) -> dict[str, NDArray[Any]]:
        """Columns of the time windows (docs/metrics.md)."""
        return series_table(self.run.engine.recorder, self.run.setup.pool)

    @cached_property
    def columns(self) -> RequestColumns:
        """Columns of the requests."""
        return RequestColumns.of(self.run.trace, self.run.engine.recorder)

    @cached_property
    def time_axis(self) -> TimeAxis:
        """Axis of all charts over time."""
        series = self.series
        return time_axis(
            series["start_s"], series["seconds"], series["running"] + series["waiting"]
        )

    def over_time(self, values: NDArray[Any]) -> dict[str, list[float | None]]:
        """Return ``x`` and ``y`` of a curve with one point in the middle of each time window.

        A single window is drawn from its start to its end, because one point is hard to see.
        """
        start_s, seconds = self.series["start_s"], self.series["seconds"]
        if len(seconds) == 1:
            return {"x": numbers([*start_s, *(start_s + seconds)]), "y": numbers(values.repeat(2))}
        return {"x": numbers(start_s + seconds / 2), "y": numbers(values)}

    @cached_property
    def _stride(self) -> int:
        """Number of windows in a stretch, so that a phone can show one bar for each stretch."""
        return -(-len(self.series["start_s"]) // _MOST_PARTS)

    @cached_property
    def stretch_middle_s(self) -> list[float | None]:
        """Middles of stretches of several windows."""
        start_s, seconds = self.series["start_s"], self.series["seconds"]
        starts = np.arange(0, len(seconds), self._stride)
        return numbers(start_s[starts] + np.add.reduceat(seconds, starts) / 2)

    def summed(self, name: str) -> list[float | None]:
        """Sum of a column of the windows in each stretch."""
        values = self.series[name]
        return numbers(np.add.reduceat(values, np.arange(0, len(values), self._stride)))

    def gaps(self) -> GapSeries:
        """Token gaps of each stretch."""
        recorder = self.run.engine.recorder
        return recorder.gaps.over_time(recorder.width_ps, len(self.series["seconds"]), self._stride)

    def mean(self, name: str) -> float:
        """Mean of a column of the windows over the time of the run."""
        seconds = self.series["seconds"]
        return float(np.average(self.series[name], weights=seconds)) if seconds.any() else 0.0

    def parts(self) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """Yield equal stretches of arrival time: middle (s), and finished requests that arrived."""
        finished = np.flatnonzero(self.columns.finished())
        if not len(finished):
            return
        arrival_s = self.columns.arrival_s()[finished]
        order = np.argsort(arrival_s, kind="stable")
        number = max(1, min(_MOST_PARTS, len(finished) // _FEWEST_REQUESTS))
        edges = np.linspace(arrival_s.min(), arrival_s.max(), number + 1)
        places = np.searchsorted(arrival_s[order], edges[1:-1], side="left")
        for start_s, stop_s, part in zip(
            edges, edges[1:], np.split(finished[order], places), strict=False
        ):
            if len(part):
                yield float(start_s + stop_s) / 2, part


RUN_CHARTS: Final[tuple[Callable[[RunView], Chart | str], ...]] = (
    memory_chart,
    queue_chart,
    distribution_chart,
    latency_chart,
    gap_chart,
    hit_chart,
    preemption_chart,
    swap_chart,
    step_chart,
)
"""Charts in order. A chart without data is a sentence that says so."""


def run_page(run: Run) -> Iterator[str]:
    """Return the parts of the page's HTML in order; the same run gives the same text."""
    summary = run.summary
    counts = ", ".join(f"{count:,} {name}" for name, count in request_counts(summary.requests))
    facts = [*run_facts(run), ("requests", counts)]
    for request, reason in [*summary.requests.refused_reasons.items()][:1]:
        facts.append(("first refused", f"{request}: {reason}"))
    facts.append(("throughput", throughput_text(summary.throughput)))
    if summary.goodput is not None:
        facts.append(("goodput", goodput_text(summary.goodput)))
    view = RunView(run)
    glance, verdict = glance_chart(view), summary.verdict.text
    head = Head(
        f"kvsim: {run.trace.name}",
        tuple(facts),
        lead=f"{verdict[:1].upper()}{verdict[1:]}.",
        alarm="Partial: the run was stopped before its end." if run.engine.partial else "",
        more=f"{memory_text(view)} {binding_text(summary)}".strip(),
        first=None if isinstance(glance, str) else glance,
    )
    return page(head, _blocks(view))


def _blocks(view: RunView) -> Iterator[Block]:
    absent = []
    for chart_of in RUN_CHARTS:
        chart = chart_of(view)
        if isinstance(chart, str):
            absent.append(chart)
        else:
            yield chart
    yield bullets("Charts without data", absent)
    yield bullets("Notes", view.run.summary.notes)
