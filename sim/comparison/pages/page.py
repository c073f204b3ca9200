"""The page of a comparison: memory beside throughput, verdicts, charts, tables and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.lines import (
    arrivals_text,
    listed,
    notes_of,
    pool_text,
    said_of,
    served_text,
    table_lines,
)
from kvsim.sim.comparison.pages.charts import overview_chart, users_chart
from kvsim.sim.comparison.pages.groups import by_trace
from kvsim.sim.comparison.pages.rate_charts import rate_charts
from kvsim.sim.comparison.pages.thumbnail_charts import thumbnail_charts
from kvsim.sim.report.facts import cost_text, rules_text, trace_text
from kvsim.sim.report.page import Head, bullets, page
from kvsim.sim.report.tables import table_html
from kvsim.traces.common.text import counted, number, published_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.lines import Line
    from kvsim.sim.comparison.presets import Published, PublishedTable
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.report.page import Block

_MOST_COLUMNS: Final = 13
_LEAD_LINE: Final = "sustained req/s"


def comparison_page(comparison: Comparison, published: Published | None = None) -> Iterator[str]:
    """Return the parts of the page's HTML in order; the same comparison gives the same text."""
    return page(_head(comparison, published), _blocks(comparison, published))


def _head(comparison: Comparison, published: Published | None) -> Head:
    rows = comparison.rows
    facts = [
        ("trace", trace_text(trace.name, trace.requests, trace.sha256))
        for trace in comparison.traces
    ]
    facts += [
        ("arrivals", arrivals_text(rows)),
        ("served by", served_text(rows)),
        ("KV memory", f"{pool_text(rows)} in each run"),
    ]
    rules = [(row.name, rules_text(row.scenario.get("preset"), row.verified)) for row in rows]
    sources = [row.cost.source for row in rows]
    costs = {
        source: cost_text([row.cost for row in rows if row.cost.source == source])
        for source in sources
    }
    costed = [(row.name, costs[row.cost.source]) for row in rows]
    for label, pairs in (("rules", rules), ("step cost", costed)):
        facts += [(label, text) for text in said_of(pairs, len(rows))]
    return Head(
        f"{counted(len(rows), 'run')} compared",
        tuple(facts),
        lead=" ".join(_lead(rows)),
        first=overview_chart(rows, "six" if published is None else "sosp23"),
    )


def _lead(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one sentence on the verdicts and, for one trace and rate, one on the best run."""
    overloaded = [row for row in rows if row.verdict.kind == "overloaded"]
    if len(overloaded) == len(rows):
        yield "All runs are overloaded."
    elif overloaded:
        names = listed([row.name for row in overloaded])
        are = "is" if len(overloaded) == 1 else "are"
        yield f"{len(overloaded)} of {len(rows)} runs {are} overloaded ({names})."
    else:
        yield "No run is overloaded."
    if len({(row.trace, row.rate_scale) for row in rows}) > 1:
        return
    for line in table_lines(rows):
        cells = zip(rows, line.cells(), strict=True)
        winners = [(row.name, text) for row, (text, is_best) in cells if is_best]
        if line.label == _LEAD_LINE and winners:
            best = listed([name for name, _ in winners])
            yield f"The highest sustained rate is {winners[0][1]} requests/s ({best})."


def _blocks(comparison: Comparison, published: Published | None) -> Iterator[Block]:
    groups = by_trace(comparison.rows)
    rows = [row for group in groups for row in group.rows]
    lines = table_lines(rows)
    yield bullets("Verdicts", said_of([(row.name, row.verdict.text) for row in rows], len(rows)))
    if published is not None:
        yield from _published(published)
    users = users_chart(rows)
    yield bullets("Charts without data", (users,)) if isinstance(users, str) else users
    yield from rate_charts(rows)
    yield from thumbnail_charts(rows)
    seen = sorted((line for line in lines if not line.section), key=lambda x: x.label != "verdict")
    yield _heading(
        "What users see, in numbers",
        "a star marks the best value of its column at each trace and rate. Read the verdict first: "
        "the latencies of an overloaded run grow with the length of the trace.",
    )
    yield from _tables("What users see", rows, seen)
    yield _heading(
        "KV memory in numbers", "shares of the pool while requests wait, and over the whole run."
    )
    yield from _tables("KV memory", rows, [line for line in lines if line.section])
    yield bullets("Notes", notes_of(comparison))


def _heading(title: str, see: str) -> str:
    """Return a heading; ``title`` and ``see`` come from this module and need no escaping."""
    return f'<h2>{title}</h2>\n<p class="see"><b>What to see:</b> {see}</p>\n'


def _tables(label: str, rows: Sequence[Row], lines: Sequence[Line]) -> Iterator[str]:
    """Yield as few tables as a screen has room for, with about as many columns each."""
    number_of = -(-len(lines) // _MOST_COLUMNS)
    for place in range(number_of):
        start, stop = (len(lines) * edge // number_of for edge in (place, place + 1))
        yield _table(label, rows, lines[start:stop])


def _table(label: str, rows: Sequence[Row], lines: Sequence[Line]) -> str:
    """Return a table with a line for each run; headings name the trace of the lines below."""
    heads = [f"{line.section}\n{line.label}" if line.section else line.label for line in lines]
    columns = [line.cells() for line in lines]
    cells_of = {row.name: cells for row, *cells in zip(rows, *columns, strict=True)}
    body: list[list[str | tuple[str, bool]]] = []
    for group in by_trace(rows):
        body += [[group.heading]] if group.heading else []
        body += [[group.name_of(row), *cells_of[row.name]] for row in group.rows]
    return table_html(label, ["", *heads], body)


def _published(published: Published) -> Iterator[str]:
    basis = f"{published.basis[:1].upper()}{published.basis[1:]}."
    yield bullets(f"Comparison with the {published.source}", (basis,))
    for table in published.tables:
        yield _published_table(table)


def _published_table(table: PublishedTable) -> str:
    body = []
    for line in table.lines:
        differences = ["-" if value is None else f"{value:+.2f}" for value in line.differences()]
        body += [
            [line.name, "paper", *map(published_number, line.paper)],
            ["", "kvsim", *map(number, line.kvsim)],
            ["", "difference", *differences],
        ]
    return table_html(table.title, [table.title, "", *table.columns], body)
