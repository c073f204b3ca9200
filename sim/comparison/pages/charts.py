"""Figures of a comparison with one bar for each run, grouped by trace.

Names of runs come from files and options. They are escaped, because plotly reads some HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvsim.sim.comparison.lines import Line, listed, short_name, table_lines
from kvsim.sim.comparison.pages.groups import slots_of
from kvsim.sim.metrics.shares import VIEWS, grouped
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import SECONDS, escaped, laid_out
from kvsim.sim.report.multiples import place_of, small_multiples
from kvsim.sim.report.palette import BLUE, GREY, STATE_LABELS, on_colour
from kvsim.traces.common.text import shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import plotly.graph_objects as go

    from kvsim.sim.comparison.pages.groups import Slot
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.documents.kv_memory import Primitives

_LONGEST_LABEL: Final = 32
_BAR_PX: Final = 24
_STACK_PX: Final = 32
_PANEL_PX: Final = 90
"""Height of title, axis and space of a row of panels."""
_BELOW_PX: Final = 80
"""Height of the legend and the axis below stacked bars."""
_FEW_TICKS: Final = 3
"""Bars have their numbers beside them, and a phone has little room below."""
_ROOM: Final = 1.35
"""Length of an axis in lengths of its longest bar: a number beside the bar needs room."""
_WIDE_ROOM: Final = 1.7
"""The same for the narrow panels beside the stacked bars."""
_NUMBER_FITS: Final = 7.0
"""Percent of the pool from which a number has room inside its bar, also on a phone."""
_LEAST_PERCENT: Final = 0.05
"""States with smaller shares in all runs are left out of the legend."""
_USERS: Final = (
    "TTFT p50",
    "TTFT p99",
    "TPOT p99",
    "sustained req/s",
    "goodput requests/s",
    "hit rate, %",
)
_BESIDE: Final = ("goodput requests/s", "sustained req/s")
"""Throughput beside the memory: the first that the comparison has."""


class _Panel(NamedTuple):
    """Bars of one metric, one for each run; ``best`` says which are marked.

    ``unit`` is for the downloaded data; ticks have their own units.
    """

    title: str
    values: list[float | None]
    texts: list[str]
    best: list[bool]
    colour: str
    unit: str = ""


def overview_chart(rows: Sequence[Row], view: str = "six") -> Chart:
    """KV memory by state as stacked bars, beside throughput and latency.

    The shares are those while requests wait, or those of the whole run if no request waits.
    """
    rows = [slot.row for slot in slots_of(rows) if slot.row is not None]
    waiting = [row.kv_bytes_share.while_waiting for row in rows]
    waited = any(waiting)
    shares = waiting if waited else [row.kv_bytes_share.all_time for row in rows]
    tokens = [
        f"{row.name}: {100 * (share.token + share.duplicate):.1f} %"
        for row, share in zip(rows, shares, strict=True)
        if share is not None
    ]
    beside = _lines_beside(rows)
    when = "while requests wait" if waited else "over the whole run, because no request waits"
    return Chart(
        "KV memory, throughput and latency" if beside else "KV memory",
        overview_figure(rows, shares, beside, view),
        "the blue part of each bar is memory that holds tokens, and its number is the share in "
        "percent. Other strong colours are memory that requests hold or block without tokens. Pale "
        f"parts are cached or free.{' A star marks the best run.' if beside else ''}",
        f"Share of the pool that holds tokens {when}: {listed(tokens)}."
        f"{' The paper counts cached and free memory as external.' if view == 'sosp23' else ''}",
    )


def overview_figure(
    rows: Sequence[Row],
    shares: Sequence[Primitives | None],
    beside: Sequence[Line],
    view: str = "six",
) -> go.Figure:
    """Return stacked bars of ``shares`` in percent of the pool, and a panel for each line."""
    from plotly.subplots import make_subplots  # noqa: PLC0415 - only a report needs plotly

    slots = slots_of(rows)
    widths = [0.56, 0.22, 0.22][: 1 + len(beside)]
    titles = ["KV memory by state, %", *(line.label for line in beside)]
    figure = make_subplots(
        rows=1,
        cols=len(titles),
        column_widths=[width / sum(widths) for width in widths],
        horizontal_spacing=0.045,
        subplot_titles=titles,
    )
    laid_out(figure, "", "", height=_PANEL_PX + _STACK_PX * len(slots) + _BELOW_PX)
    _add_states(figure, slots, rows, shares, view)
    for place, line in enumerate(beside, 1):
        where = {"row": 1, "col": place + 1}
        panel = _panel_of(line)
        figure.add_bar(**_bars(panel, slots, rows), **where)
        figure.update_xaxes(range=[0, _most(panel) * _WIDE_ROOM], nticks=_FEW_TICKS, **where)
        figure.update_xaxes(SECONDS if panel.unit else {}, **where)
    _label_slots(
        figure, slots, {row.name for row, share in zip(rows, shares, strict=True) if not share}
    )
    figure.update_xaxes(range=[0, 100], tickvals=[0, 25, 50, 75, 100], showgrid=False, col=1)
    figure.update_annotations(font_size=13)
    return figure.update_layout(
        barmode="stack",
        bargap=0.2,
        hovermode="closest",
        legend_traceorder="normal",
        margin={"l": 20, "r": 15, "t": 50, "b": _BELOW_PX},
        meta={"panel_px": _PANEL_PX + _STACK_PX * len(slots), "x": "percent of the pool"},
    )


def _add_states(
    figure: go.Figure,
    slots: Sequence[Slot],
    rows: Sequence[Row],
    shares: Sequence[Primitives | None],
    view: str,
) -> None:
    """Add the stacked bars, one trace of bars for each state."""
    places = _places(slots)
    by_state = grouped(shares, view)
    names = [escaped(row.name) for row in rows]
    for state in VIEWS[view]:
        label, colour = STATE_LABELS[state]
        if view == "sosp23" and state == "external":
            label = "external and other"
        percent = [None if share is None else round(100 * share[state], 2) for share in by_state]
        figure.add_bar(
            x=percent,
            y=places,
            name=label,
            customdata=names,
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            text=[f"{value:.1f}" if (value or 0) >= _NUMBER_FITS else "" for value in percent],
            textposition="inside",
            insidetextanchor="start" if state == "token" else "middle",
            textangle=0,
            constraintext="none",
            insidetextfont={"color": on_colour(colour)},
            meta={"panel": "KV memory"},
            hovertemplate=f"%{{customdata}}: {label} %{{x:.2f}} %<extra></extra>",
            showlegend=max((value or 0 for value in percent), default=0) >= _LEAST_PERCENT,
            row=1,
            col=1,
        )
    _add_small_shares(figure, slots, by_state, view)


def _add_small_shares(
    figure: go.Figure,
    slots: Sequence[Slot],
    by_state: Sequence[dict[str, float] | None],
    view: str,
) -> None:
    """Write token shares that have no room in their part of the bar behind it."""
    points: dict[str | None, list[tuple[float, int]]] = {}
    for place, share in zip(_places(slots), by_state, strict=True):
        if share is not None and 100 * share["token"] < _NUMBER_FITS:
            behind = max(
                (state for state in VIEWS[view] if state != "token"), key=share.__getitem__
            )
            colour = on_colour(STATE_LABELS[behind][1])
            points.setdefault(colour, []).append((round(100 * share["token"], 2), place))
    for colour, ends in points.items():
        figure.add_scatter(
            x=[percent for percent, _ in ends],
            y=[place for _, place in ends],
            text=[f"{percent:.1f}" for percent, _ in ends],
            name="token",
            meta={"panel": "KV memory"},
            mode="text",
            textposition="middle right",
            textfont={"color": colour},
            hoverinfo="skip",
            showlegend=False,
            row=1,
            col=1,
        )


def _lines_beside(rows: Sequence[Row]) -> list[Line]:
    """Throughput and TTFT, where the comparison has them."""
    lines = {line.label: line for line in table_lines(rows) if any(line.values)}
    names = [*[name for name in _BESIDE if name in lines][:1], "TTFT p50"]
    return [lines[name] for name in names if name in lines]


def users_chart(rows: Sequence[Row]) -> Chart | str:
    """Latencies, rates and hits: a panel for each metric that some run has.

    Where no run has any, a sentence says why.
    """
    rows = [slot.row for slot in slots_of(rows) if slot.row is not None]
    lines = {line.label: line for line in table_lines(rows)}
    shown = [line for name in _USERS if (line := lines.get(name)) and any(line.values)]
    if not shown:
        if any(row.metrics.finished for row in rows):
            return "What users see: all latencies of requests that finished are 0 or unknown."
        return "What users see: no request was served."
    winners = []
    for line in shown:
        names = [row.name for row, (_, best) in zip(rows, line.cells(), strict=True) if best]
        if names:
            winners.append(f"{line.label}: {listed(names)}")
    return Chart(
        "What users see",
        users_figure(rows, shown),
        "the blue bar with a star is the best of its panel. The latencies of an overloaded run "
        "grow with the length of the trace.",
        f"The best run of each panel. {'. '.join(winners)}."
        if winners
        else "No run is better than another.",
    )


def users_figure(rows: Sequence[Row], lines: Sequence[Line]) -> go.Figure:
    """Return one panel for each metric, one bar for each run, and a star at the best run."""
    slots = slots_of(rows)
    panels = [_panel_of(line) for line in lines]
    figure = small_multiples([panel.title for panel in panels], _BAR_PX * len(slots), _PANEL_PX)
    for place, panel in enumerate(panels):
        where = place_of(place, len(panels))
        figure.add_bar(**_bars(panel, slots, rows), **where)
        figure.update_xaxes(range=[0, _most(panel) * _ROOM], nticks=_FEW_TICKS, **where)
        figure.update_xaxes(SECONDS if panel.unit else {}, **where)
    _label_slots(figure, slots)
    return figure.update_layout(bargap=0.25, hovermode="closest")


def _panel_of(line: Line) -> _Panel:
    cells = line.cells()
    texts = [f"{text} \u2605" if best else text for text, best in cells]
    unit = ", s" if line.label.startswith(("TTFT", "TPOT")) else ""
    return _Panel(line.label, line.values, texts, [best for _, best in cells], GREY, unit)


def _most(panel: _Panel) -> float:
    """Largest value of a panel; 1 where it has none above 0."""
    return max((value for value in panel.values if value is not None), default=0) or 1


def _places(slots: Sequence[Slot]) -> list[int]:
    """Places of the rows along the axis; headings have places between them."""
    return [place for place, slot in enumerate(slots) if slot.row is not None]


def _label_slots(
    figure: go.Figure, slots: Sequence[Slot], without_bar: Collection[str] = ()
) -> None:
    """Name the rows and the headings along the y axes; rows ``without_bar`` say why."""
    labels = []
    for slot in slots:
        if slot.row is None:
            labels.append(f"<b>{_label(slot.label)}</b>")
        else:
            suffix = " (no waiting)" if slot.row.name in without_bar else ""
            labels.append(_label(slot.label, suffix))
    figure.update_yaxes(
        tickvals=list(range(len(slots))),
        ticktext=labels,
        range=[len(slots) - 0.5, -0.5],
        showgrid=False,
        showticklabels=False,
        title_text=None,
    )
    figure.update_yaxes(automargin=True, showticklabels=True, col=1)


def _bars(panel: _Panel, slots: Sequence[Slot], rows: Sequence[Row]) -> dict[str, Any]:
    names = [escaped(row.name) for row in rows]
    edges = [BLUE if best else "rgba(0,0,0,0)" for best in panel.best]
    if not any(panel.best):
        edges = [GREY] * len(names)
    return {
        "x": panel.values,
        "y": _places(slots),
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
