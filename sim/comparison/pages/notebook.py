"""What a notebook shows of a comparison: one short table. All text is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.lines import table_lines
from kvsim.sim.report.notebook import html_table

if TYPE_CHECKING:
    from kvsim.sim.comparison.comparison import Comparison

_COMPARED: Final = (
    "verdict",
    "sustained req/s",
    "TTFT p50",
    "TTFT p99",
    "TPOT p99",
    "goodput requests/s",
    "preemptions",
    "hit rate, %",
)


def comparison_html(comparison: Comparison) -> str:
    """Return the metrics that users see, one row for each run, with a star at the best."""
    lines = {line.label: line for line in table_lines(comparison.rows)}
    labels = [label for label in _COMPARED if label in lines]
    cells = [lines[label].cells() for label in labels]
    rows = (
        (row.name, *(f"{text} *" if best else text for text, best in line))
        for row, *line in zip(comparison.rows, *cells, strict=True)
    )
    traces = ", ".join(trace.name for trace in comparison.traces)
    return html_table(f"{len(comparison.rows)} runs on {traces}", ("", *labels), rows)
