"""One page about a run: where KV memory went, who waited, how long answers took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.report.facts import run_facts
from kvsim.sim.report.latency_charts import distribution_chart
from kvsim.sim.report.load_charts import memory_chart, queue_chart
from kvsim.sim.report.page import Head, bullets, page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.sim.report.page import Block
    from kvsim.sim.run import Run


def run_page(run: Run) -> Iterator[str]:
    """Parts of the page's HTML, in order; the same run gives the same text."""
    requests, verdict = run.summary["requests"], run.summary["verdict"]
    assert isinstance(requests, dict), "summary['requests'] is a dict"
    assert isinstance(verdict, dict), "summary['verdict'] is a dict"
    names = ["finished", "refused", "unfinished"]
    names += [name for name in ("aborted", "not_sent") if requests[name]]
    counts = ", ".join(f"{requests[name]:,} {name.replace('_', ' ')}" for name in names)
    head = Head(
        f"kvsim: {run.trace.name}",
        (*run_facts(run), ("requests", counts)),
        lead=str(verdict["text"]),
        alarm="Partial: the run was stopped." if run.engine.partial else "",
    )
    return page(head, _blocks(run))


def _blocks(run: Run) -> Iterator[Block]:
    for chart in (memory_chart, queue_chart, distribution_chart):
        yield chart(run)
    yield bullets("Notes", run.summary["notes"])  # type: ignore[arg-type]  # a list of sentences
