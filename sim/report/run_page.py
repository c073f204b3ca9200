"""One page about a run: where KV memory went, who waited, how long answers took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.report.event_charts import hit_chart, preemption_chart, step_chart, swap_chart
from kvsim.sim.report.facts import goodput_text, run_facts, throughput_text
from kvsim.sim.report.latency_charts import course_chart, distribution_chart, gap_chart
from kvsim.sim.report.load_charts import memory_chart, queue_chart
from kvsim.sim.report.page import Head, bullets, page
from kvsim.sim.report.run_view import RunView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvsim.sim.report.chart import Chart
    from kvsim.sim.report.page import Block
    from kvsim.sim.run.run import Run

RUN_CHARTS: Final[tuple[Callable[[RunView], Chart | str], ...]] = (
    memory_chart,
    queue_chart,
    distribution_chart,
    course_chart,
    gap_chart,
    hit_chart,
    preemption_chart,
    swap_chart,
    step_chart,
)
"""In order; where there is nothing to draw, a chart is a sentence that says so."""


def run_page(run: Run) -> Iterator[str]:
    """Parts of the page's HTML, in order; the same run gives the same text."""
    summary: Mapping[str, Any] = run.summary
    requests, goodput = summary["requests"], summary["goodput"]
    names = ["finished", "refused", "unfinished"]
    names += [name for name in ("aborted", "not_sent") if requests[name]]
    counts = ", ".join(f"{requests[name]:,} {name.replace('_', ' ')}" for name in names)
    facts = [*run_facts(run), ("requests", counts)]
    for request, reason in [*requests["refused_reasons"].items()][:1]:
        facts.append(("first refused", f"{request}: {reason}"))
    facts.append(("throughput", throughput_text(summary["throughput"])))
    if goodput is not None:
        facts.append(("goodput", goodput_text(goodput)))
    head = Head(
        f"kvsim: {run.trace.name}",
        tuple(facts),
        lead=str(summary["verdict"]["text"]),
        alarm="Partial: the run was stopped." if run.engine.partial else "",
    )
    return page(head, _blocks(run))


def _blocks(run: Run) -> Iterator[Block]:
    view, absent = RunView(run), []
    for chart_of in RUN_CHARTS:
        chart = chart_of(view)
        if isinstance(chart, str):
            absent.append(chart)
        else:
            yield chart
    yield bullets("Nothing to draw", absent)
    yield bullets("Notes", run.summary["notes"])  # type: ignore[arg-type]  # a list of sentences
