"""Figures of a comparison over time: a panel a run, all on the same axes.

Names of runs come from files and options: they are escaped, as plotly reads some HTML.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.lines import Line, listed, short_name, table_lines
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import escaped, numbers
from kvsim.sim.report.multiples import ACROSS, place_of, small_multiples
from kvsim.sim.report.palette import BLUE, ORANGE, STATE_LABELS
from kvsim.traces.common.text import counted, number, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from kvsim.sim.comparison.row import Row

MOST_PANELS: Final = 36
"""More are no picture any more, but seconds of drawing."""
_INNER_PX: Final = 110
_AROUND_PX: Final = 75
_BELOW_PX: Final = 90
"""For titles of axes and the legend: no second drawing where that is enough."""
_LETTERS: Final = 26
_MOST_LINES: Final = 2
"""Of a panel's title, and letters of each."""
_LEAST_PERCENT: Final = 0.2
"""States that a run never has more of are left out of its panel: nobody would see them."""
_SAME_AXES: Final = "all panels have the same axes, and one that ends early was done early."


def thumbnail_charts(rows: Sequence[Row]) -> list[Chart]:
    """KV memory, and running and waiting requests, over time; none where no time passed."""
    if not any(len(row.thumbnail.kv_s) for row in rows):
        return []
    return [_memory_chart(rows), _queue_chart(rows)]


def _memory_chart(rows: Sequence[Row]) -> Chart:
    lines = (x for x in table_lines(rows) if x.section == "KV while waiting" and x.label == "token")
    best = _best(next(lines, None), len(rows))
    shown = rows[:MOST_PANELS]
    figure = _panels(shown, best)
    named: set[str] = set()
    for place, row in enumerate(shown):
        for rank, state in enumerate(STATES):
            if not (row.thumbnail.kv_percent[state] > _LEAST_PERCENT).any():
                continue
            label, colour = STATE_LABELS[state]
            figure.add_scatter(
                x=numbers(row.thumbnail.kv_s),
                y=numbers(row.thumbnail.kv_percent[state]),
                name=label,
                legendgroup=label,
                legendrank=rank,
                showlegend=state not in named,
                meta={"panel": escaped(row.name)},
                stackgroup=f"stack {place}",
                mode="lines",
                line={"width": 0, "color": colour},
                fillcolor=colour,
                **place_of(place, len(shown)),
            )
            named.add(state)
    _label_axes(figure, len(shown), "% of the pool")
    figure.update_yaxes(range=[0, 100], tickvals=[0, 50, 100])
    return Chart(
        "KV memory over time",
        figure,
        "the more of the height is token, the more of the memory does its work; " + _SAME_AXES,
        _winners("Most tokens while requests wait", rows, best) + _left_out(rows),
    )


def _queue_chart(rows: Sequence[Row]) -> Chart:
    best = _best(_waited(rows), len(rows))
    shown = rows[:MOST_PANELS]
    figure = _panels(shown, best)
    for place, row in enumerate(shown):
        for name, (times_s, requests), look in (
            ("waiting", row.thumbnail.waiting, {"width": 1, "color": ORANGE}),
            ("running", row.thumbnail.running, {"width": 2, "color": BLUE}),
        ):
            figure.add_scatter(
                x=numbers(times_s),
                y=numbers(requests),
                name=name,
                legendgroup=name,
                showlegend=place == 0,
                meta={"panel": escaped(row.name)},
                mode="lines",
                line=look,
                fill="tozeroy" if name == "waiting" else "none",
                **place_of(place, len(shown)),
            )
    _label_axes(figure, len(shown), "requests")
    return Chart(
        "Running and waiting requests over time",
        figure,
        "the area is what was waited; a queue that grows while requests arrive means overload; "
        + _SAME_AXES,
        _winners("Least waited in all", rows, best) + _left_out(rows),
    )


def _panels(rows: Sequence[Row], best: Sequence[bool]) -> go.Figure:
    titles = [_title(row.name, best=starred) for row, starred in zip(rows, best, strict=False)]
    return small_multiples(titles, _INNER_PX, _AROUND_PX, shared_x=True, below_px=_BELOW_PX)


def _title(name: str, *, best: bool) -> str:
    """Two lines at most, with a star for the best."""
    lines = wrap(short_name(name), _LETTERS, break_on_hyphens=False)
    if len(lines) > _MOST_LINES:
        cut = shortened(short_name(name), _MOST_LINES * _LETTERS)
        lines = [cut[:_LETTERS], cut[_LETTERS:]]
    text = "<br>".join(map(escaped, lines))
    return f"<b>{text} \u2605</b>" if best else text


def _label_axes(figure: go.Figure, num_panels: int, label: str) -> None:
    for lowest in range(max(num_panels - ACROSS, 0), num_panels):
        figure.update_xaxes(title_text="time (s)", **place_of(lowest, num_panels))
    figure.update_yaxes(title_text=label, title_standoff=4, col=1)
    figure.update_layout(margin_l=60)


def _waited(rows: Sequence[Row]) -> Line | None:
    """Waiting in all; none of a run that refused requests, as these wait no longer."""
    waited = [None if row.metrics.refused else row.thumbnail.waited_s for row in rows]
    groups = table_lines(rows)[0].groups
    return Line("", "waited", waited, lambda s: "-" if s is None else number(s), min, groups)


def _best(line: Line | None, num_rows: int) -> list[bool]:
    return [False] * num_rows if line is None else [best for _, best in line.cells()]


def _winners(what: str, rows: Sequence[Row], best: Sequence[bool]) -> str:
    names = [row.name for row, starred in zip(rows, best, strict=True) if starred]
    return f"{what} (starred): {listed(names)}." if names else "No run is better than another."


def _left_out(rows: Sequence[Row]) -> str:
    if len(rows) <= MOST_PANELS:
        return ""
    return f" The first {MOST_PANELS} of {counted(len(rows), 'run')} are drawn."
