"""A comparison as one HTML page: memory by state in small multiples, and the table.

Names of traces and scenarios come from files and options: they are escaped wherever they stand.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kvsim.cli.compare_table import notes_of, pool_text, table_lines
from kvsim.cli.published_table import figure as figure_text
from kvsim.cli.table import number
from kvsim.sim.html_page import STATE_LABELS, figure_html, page
from kvsim.sim.memory_shares import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import plotly.graph_objects as go

    from kvsim.cli.compare_table import Line
    from kvsim.sim.comparison import Comparison
    from kvsim.sim.comparison_presets import Published, PublishedTable
    from kvsim.sim.comparison_row import Row

_LONGEST_LABEL: Final = 40
_BAR_PX: Final = 24
_PANEL_PX: Final = 90
"""Title, axis and space of a row of panels."""


def page_parts(comparison: Comparison, published: Published | None) -> Iterator[str]:
    """Parts of the page's HTML, in order; the same comparison gives the same text."""
    names = ", ".join(trace.name for trace in comparison.traces)
    return page(f"kvsim compare: {names}", _body(comparison, published))


def _body(comparison: Comparison, published: Published | None) -> Iterator[str]:
    rows = comparison.rows
    traces = ", ".join(f"{trace.name} ({trace.requests:,} requests)" for trace in comparison.traces)
    yield (
        f"<h1>{len(rows)} runs compared</h1>\n"
        f'<p class="note">on {escape(traces)}; {escape(pool_text(rows))} for KV</p>\n'
    )
    if published is not None:
        yield from _published(published)
    window = "while_waiting" if any(row.kv_bytes_share["while_waiting"] for row in rows) else ""
    when = "while requests wait" if window else "over the whole run (no request waited)"
    yield (
        f"<h2>KV memory by state, {when}</h2>\n"
        '<p class="note">What to see: the longer the bar of <em>token</em>, the more of the memory '
        "does its work; the other bars say where the rest went.</p>\n"
        f"{figure_html(states_figure(rows, window or 'all_time'), 1)}\n"
    )
    lines = table_lines(rows)
    seen = sorted((line for line in lines if not line.section), key=lambda x: x.label != "verdict")
    yield (
        "<h2>What users see</h2>\n"
        '<p class="note">What to see: green is the best of its column. Read the verdict first: '
        "where a system is overloaded, latencies tell the length of the trace.</p>\n"
        f"{_table(rows, seen)}\n"
        "<h2>KV memory in numbers</h2>\n"
        '<p class="note">What to see: the same shares as above, and those over the whole run.</p>\n'
        f"{_table(rows, [line for line in lines if line.section])}\n"
    )
    verdicts = (f"<li>{escape(row.name)}: {escape(row.verdict['text'])}</li>" for row in rows)
    notes = (f"<li>{escape(note)}</li>" for note in notes_of(comparison))
    yield f"<h2>Verdicts</h2>\n<ul>{''.join(verdicts)}</ul>\n"
    yield f"<h2>Notes</h2>\n<ul>{''.join(notes)}</ul>\n"


def states_figure(rows: Sequence[Row], window: str) -> go.Figure:
    """One panel a state, one bar a row: percent of the pool over ``window``."""
    from plotly.subplots import make_subplots

    titles = [STATE_LABELS[state][0] for state in STATES]
    height = 2 * (_PANEL_PX + _BAR_PX * len(rows))
    figure = make_subplots(
        rows=2,
        cols=3,
        shared_xaxes="all",
        shared_yaxes=True,
        subplot_titles=titles,
        horizontal_spacing=0.04,
        vertical_spacing=_PANEL_PX / height,
    )
    places = list(range(len(rows)))
    for panel, (state, parts) in enumerate(STATES.items()):
        shares = [row.kv_bytes_share[window] for row in rows]
        percent = [
            None if share is None else round(100 * sum(share[part] for part in parts), 2)
            for share in shares
        ]
        figure.add_bar(
            x=percent,
            y=places,
            orientation="h",
            marker={"color": STATE_LABELS[state][1], "line": {"color": "#888", "width": 0.5}},
            text=["" if value is None else f"{value:.1f}" for value in percent],
            customdata=[escape(row.name) for row in rows],
            textposition="auto",
            cliponaxis=False,
            hovertemplate="%{customdata}: %{x:.2f} % of the pool<extra></extra>",
            showlegend=False,
            row=panel // 3 + 1,
            col=panel % 3 + 1,
        )
    figure.update_yaxes(
        tickvals=places,
        ticktext=[escape(_label(row, window)) for row in rows],
        range=[len(rows) - 0.5, -0.5],
        automargin=True,
    )
    figure.update_xaxes(range=[0, 100], showticklabels=True, title_standoff=4)
    figure.update_xaxes(title_text="% of the pool", row=2)
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 20, "r": 20, "t": 60, "b": 50},
        bargap=0.25,
    )
    return figure


def _label(row: Row, window: str) -> str:
    name, none = row.name, "" if row.kv_bytes_share[window] else " (nobody waits)"
    cut = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 3]}..."
    return f"{cut}{none} "


def _table(rows: Sequence[Row], lines: Sequence[Line]) -> str:
    """Rows down, metrics across, the best of each column marked."""
    heads = "".join(
        f"<th>{escape(line.section)}{'<br>' if line.section else ''}{escape(line.label)}</th>"
        for line in lines
    )
    columns = [line.cells() for line in lines]
    body = []
    for place, row in enumerate(rows):
        cells = (
            f'<td class="best">{escape(column[place][0])}</td>'
            if column[place][1]
            else f"<td>{escape(column[place][0])}</td>"
            for column in columns
        )
        body.append(f"<tr><td>{escape(row.name)}</td>{''.join(cells)}</tr>\n")
    return (
        f'<div class="wide"><table>\n<thead><tr><th></th>{heads}</tr></thead>\n'
        f"<tbody>\n{''.join(body)}</tbody></table></div>"
    )


def _published(published: Published) -> Iterator[str]:
    yield (
        f"<h2>Beside the {escape(published.source)}</h2>\n"
        '<p class="note">What to see: how far each number is from the paper\'s. '
        f"{escape(published.basis[:1].upper() + published.basis[1:])}.</p>\n"
    )
    for table in published.tables:
        yield _published_table(table)


def _published_table(table: PublishedTable) -> str:
    heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = []
    for line in table.lines:
        differences = ["-" if value is None else f"{value:+.2f}" for value in line.differences()]
        for kind, values in (
            ("paper", [figure_text(value) for value in line.paper]),
            ("kvsim", [number(value) for value in line.kvsim]),
            ("difference", differences),
        ):
            cells = "".join(f"<td>{escape(value)}</td>" for value in values)
            name = escape(line.name) if kind == "paper" else ""
            body.append(f"<tr><td>{name}</td><td>{kind}</td>{cells}</tr>\n")
    return (
        f'<div class="wide"><table>\n<thead><tr><th>{escape(table.title)}</th><th></th>{heads}</tr>'
        f"</thead>\n<tbody>\n{''.join(body)}</tbody></table></div>\n"
    )
