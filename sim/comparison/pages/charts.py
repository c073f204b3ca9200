"""Figures of a comparison: small multiples, one bar a run, the best of each panel marked.

Names of runs come from files and options: they are escaped, as plotly reads some HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvsim.sim.comparison.lines import listed, short_name, table_lines
from kvsim.sim.metrics.shares import VIEWS, grouped
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import SECONDS, escaped
from kvsim.sim.report.multiples import place_of, rows_of, small_multiples
from kvsim.sim.report.palette import BLUE, GREY, STATE_LABELS
from kvsim.traces.common.text import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from kvsim.sim.comparison.lines import Line
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.documents.kv_memory import Primitives

_LONGEST_LABEL: Final = 32
_BAR_PX: Final = 24
_PANEL_PX: Final = 90
"""Title, axis and space of a row of panels."""
_FEW_TICKS: Final = 3
"""Bars have their numbers beside them, and a phone little room below."""
_ROOM: Final = 1.35
"""Of an axis against its longest bar: room for the number beside the bar."""
_USERS: Final = (
    "TTFT p50",
    "TTFT p99",
    "TPOT p99",
    "sustained req/s",
    "goodput requests/s",
    "hit rate, %",
)


class _Panel(NamedTuple):
    """Bars of one metric, one a run; ``best`` tells which are marked.

    ``unit`` is for the downloaded data: ticks bear their own.
    """

    title: str
    values: list[float | None]
    texts: list[str]
    best: list[bool]
    colour: str
    unit: str = ""


def memory_chart(rows: Sequence[Row], view: str = "six") -> Chart:
    """Shares of the pool by state, over the time in which requests waited, if any did."""
    waiting = [row.kv_bytes_share.while_waiting for row in rows]
    waited = any(waiting)
    shares = waiting if waited else [row.kv_bytes_share.all_time for row in rows]
    when = "while requests wait" if waited else "over the whole run (no request waited)"
    tokens = [
        f"{row.name}: {100 * (share.token + share.duplicate):.1f} %"
        for row, share in zip(rows, shares, strict=True)
        if share is not None
    ]
    return Chart(
        f"KV memory by state{' as the paper groups it' if view == 'sosp23' else ''}, {when}",
        states_figure(rows, shares, view),
        "the longer the bar of token, the more of the memory does its work; the other bars say "
        "where the rest went.",
        f"Share of the pool that holds tokens: {listed(tokens)}.",
    )


def states_figure(
    rows: Sequence[Row], shares: Sequence[Primitives | None], view: str = "six"
) -> go.Figure:
    """One panel a state of a view, one bar a row: percent of the pool, of ``shares``."""
    panels, by_state = [], grouped(shares, view)
    for state in VIEWS[view]:
        percent = [None if share is None else round(100 * share[state], 2) for share in by_state]
        title, colour = STATE_LABELS[state]
        if view == "sosp23" and state == "external":
            title = "external and other"
        texts = ["" if value is None else f"{value:.1f}" for value in percent]
        panels.append(_Panel(title, [*percent], texts, [False] * len(rows), colour))
    labels = [
        _label(row.name, "" if share else " (nobody waits)")
        for row, share in zip(rows, shares, strict=True)
    ]
    figure = _multiples(rows, labels, panels, shared_x=True)
    figure.update_xaxes(range=[0, 100 * _ROOM], tickvals=[0, 50, 100])
    return figure.update_xaxes(title_text="% of the pool", row=rows_of(len(panels)))


def users_chart(rows: Sequence[Row]) -> Chart | str:
    """Latencies, rates, hits: a panel for each above 0 in some run; a sentence where none is."""
    lines = {line.label: line for line in table_lines(rows)}
    shown = [line for name in _USERS if (line := lines.get(name)) and any(line.values)]
    if not shown:
        if any(row.metrics.finished for row in rows):
            return "What users see: all latencies of requests that finished are 0 or unknown."
        return "What users see: nothing, for no request was served."
    winners = []
    for line in shown:
        names = [row.name for row, (_, best) in zip(rows, line.cells(), strict=True) if best]
        if names:
            winners.append(f"{line.label}: {listed(names)}")
    return Chart(
        "What users see",
        users_figure(rows, shown),
        "the outlined bar with a star is the best of its panel; latencies of overloaded runs tell "
        "the length of the trace.",
        f"The best. {'. '.join(winners)}." if winners else "No run is better than another.",
    )


def users_figure(rows: Sequence[Row], lines: Sequence[Line]) -> go.Figure:
    """One panel a metric, one bar a row, the best starred."""
    panels = []
    for line in lines:
        cells = line.cells()
        texts = [f"{text} \u2605" if best else text for text, best in cells]
        best = [best for _, best in cells]
        unit = ", s" if line.label.startswith(("TTFT", "TPOT")) else ""
        panels.append(_Panel(line.label, line.values, texts, best, GREY, unit))
    figure = _multiples(rows, [_label(row.name) for row in rows], panels)
    figure.update_xaxes(nticks=_FEW_TICKS)
    for line, axis in zip(lines, figure.select_xaxes(), strict=False):
        if line.label.startswith(("TTFT", "TPOT")):
            axis.update(SECONDS)
    return figure


def _multiples(
    rows: Sequence[Row], labels: Sequence[str], panels: Sequence[_Panel], *, shared_x: bool = False
) -> go.Figure:
    """Panels side by side with the runs down the side."""
    titles = [panel.title for panel in panels]
    figure = small_multiples(titles, _BAR_PX * len(rows), _PANEL_PX, shared_x=shared_x)
    names = [escaped(row.name) for row in rows]
    for place, panel in enumerate(panels):
        bars = _bars(panel, names)
        where = place_of(place, len(panels))
        figure.add_bar(**bars, **where)
        most = max((value for value in panel.values if value is not None), default=0)
        figure.update_xaxes(range=[0, (most or 1) * _ROOM], **where)
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=labels,
        range=[len(rows) - 0.5, -0.5],
        title_text=None,
    )
    figure.update_yaxes(automargin=True, col=1)
    return figure.update_layout(bargap=0.25, hovermode="closest")


def _bars(panel: _Panel, names: Sequence[str]) -> dict[str, Any]:
    edges = [BLUE if best else "rgba(0,0,0,0)" for best in panel.best]
    if not any(panel.best):
        edges = [GREY] * len(names)
    return {
        "x": panel.values,
        "y": list(range(len(names))),
        "name": panel.title,
        "meta": {"panel": panel.title + panel.unit},
        "customdata": names,
        "text": panel.texts,
        "orientation": "h",
        "marker": {
            "color": [BLUE if best else panel.colour for best in panel.best],
            "line": {"color": edges, "width": [2 if best else 0.5 for best in panel.best]},
        },
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": f"%{{customdata}}: %{{text}}<extra>{panel.title}</extra>",
        "showlegend": False,
    }


def _label(name: str, suffix: str = "") -> str:
    return f"{escaped(shortened(short_name(name), _LONGEST_LABEL))}{suffix} "
