"""Figures of a comparison over time: a panel for each run, and a figure for each trace.

Names of runs come from files and options. They are escaped, because plotly reads some HTML.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvsim.sim.comparison.lines import Line, listed, short_name, table_lines
from kvsim.sim.comparison.pages.groups import Group, by_trace
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import escaped, numbers
from kvsim.sim.report.multiples import ACROSS, place_of, small_multiples
from kvsim.sim.report.palette import BLUE, ORANGE, STATE_LABELS
from kvsim.sim.report.time_axis import time_axis
from kvsim.traces.common.text import counted, number, seconds, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import plotly.graph_objects as go

    from kvsim.sim.comparison.row import Row
    from kvsim.sim.report.time_axis import TimeAxis

MOST_PANELS: Final = 36
"""Largest number of panels of a page; a browser needs seconds to draw more."""
_INNER_PX: Final = 110
_AROUND_PX: Final = 75
_BELOW_PX: Final = 90
"""Height of axis titles and legend; plotly draws a second time where it is too small."""
_LETTERS: Final = 26
_MOST_LINES: Final = 2
"""Largest number of lines of a panel's title; each has up to ``_LETTERS`` letters."""
_LEAST_PERCENT: Final = 0.2
"""States that never have a larger share in a run are left out of its panel."""
_SPACE: Final = 1.05
"""Length of an axis in lengths of its largest value."""
_ALIKE: Final = 0.5
"""Length of the shortest run by the longest from which all panels have the same time axis."""
_SAME_AXES: Final = "All panels have the same axes, so a run that ends early is a fast run."
_OWN_AXES: Final = (
    "Each panel has its own time axis, because some runs are much shorter than others."
)


class OverTime(NamedTuple):
    """The two charts of some runs."""

    memory: Chart
    queue: Chart


def thumbnail_charts(rows: Sequence[Row]) -> list[Chart]:
    """Return the charts of each trace; none where no time passed."""
    charts: list[Chart] = []
    left = MOST_PANELS
    for group in by_trace(rows):
        found = charts_of(group.rows[:left], group, rows) if left else None
        if found is not None:
            charts += found
            left -= len(group.rows[:left])
    return charts


def charts_of(
    shown: Sequence[Row], group: Group | None = None, rows: Sequence[Row] | None = None
) -> OverTime | None:
    """Return KV memory and requests over time of some ``rows``; ``None`` where no time passed.

    The best run is sought among all ``rows``, at each trace and rate. Below the heading of a
    ``group`` the names of its rows leave out the trace.
    """
    if not any(len(row.thumbnail.kv_s) for row in shown):
        return None
    rows, group = shown if rows is None else rows, group or Group("", [*shown])
    shown = shown[:MOST_PANELS]
    return OverTime(_memory_chart(shown, group, rows), _queue_chart(shown, group, rows))


def _memory_chart(shown: Sequence[Row], group: Group, rows: Sequence[Row]) -> Chart:
    lines = (x for x in table_lines(rows) if x.section == "KV while waiting" and x.label == "token")
    best = _best(next(lines, None), rows)
    figure = _panels(shown, group, best)
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
        _headed("KV memory over time", group),
        figure,
        "the blue area is memory that holds tokens. Pale areas are cached or free. " + _axes(shown),
        _winners("Most tokens while requests wait (starred)", group, best)
        + _ends(shown, group)
        + _left_out(rows),
    )


def _queue_chart(shown: Sequence[Row], group: Group, rows: Sequence[Row]) -> Chart:
    best = _best(_waited(rows), rows)
    figure = _panels(shown, group, best)
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
    most = max(max(curve.y, default=0) for curve in figure.data)
    figure.update_yaxes(range=[0, _SPACE * (most or 1)])
    return Chart(
        _headed("Running and waiting requests over time", group),
        figure,
        "the orange area is the waiting time of all requests. If the queue grows while requests "
        "arrive, the server is overloaded. " + _axes(shown),
        _winners("Least waiting time (starred)", group, best)
        + _ends(shown, group)
        + _left_out(rows),
    )


def _headed(title: str, group: Group) -> str:
    return f"{title}: {group.heading}" if group.heading else title


def _panels(shown: Sequence[Row], group: Group, best: Mapping[str, bool]) -> go.Figure:
    """One panel for each run. The y axis is the same; so is the x axis, if the runs are alike."""
    titles = [_title(group.name_of(row), best=best[row.name]) for row in shown]
    own = not _are_alike(shown)
    figure = small_multiples(
        titles, _INNER_PX, _AROUND_PX, shared_x=not own, shared_y=True, below_px=_BELOW_PX
    )
    axes = [_time_axis(row) for row in shown]
    longest_s = max(axis.end_s for axis in axes if axis is not None)
    for place, axis in enumerate(axes):
        if axis is not None:
            ends = [axis.start_s, axis.end_s] if own else [0.0, longest_s]
            figure.update_xaxes(range=numbers(ends), **place_of(place, len(shown)))
    return figure


def _time_axis(row: Row) -> TimeAxis | None:
    """Time axis of a run without a long and almost empty end; ``None`` where no time passed."""
    times_s, running = row.thumbnail.running
    if not len(times_s):
        return None
    requests = running + np.interp(times_s, *row.thumbnail.waiting)
    axis = time_axis(times_s, np.diff(times_s, append=times_s[-1]), requests)
    return axis if axis.note else axis._replace(start_s=0.0, end_s=row.kv_in_use.seconds)


def _are_alike(shown: Sequence[Row]) -> bool:
    """Whether the data of all runs fill the same time axis."""
    ends_s = [axis.end_s for row in shown if (axis := _time_axis(row)) is not None]
    return min(ends_s) >= _ALIKE * max(ends_s)


def _axes(shown: Sequence[Row]) -> str:
    return _SAME_AXES if _are_alike(shown) else _OWN_AXES


def _ends(shown: Sequence[Row], group: Group) -> str:
    """When the runs end, and which axes are cut before."""
    ends = [f"{group.name_of(row)} {seconds(row.kv_in_use.seconds)}" for row in shown]
    cut = [
        group.name_of(row) for row in shown if (axis := _time_axis(row)) is not None and axis.note
    ]
    where = f" Cut where almost no requests are left: {listed(cut)}." if cut else ""
    return f" End of the run: {listed(ends)}.{where}"


def _title(name: str, *, best: bool) -> str:
    """Return a name in at most two lines, with a star for the best."""
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
    """Waiting time of each run; none of a run that refused requests, which do not wait."""
    waited = [None if row.metrics.refused else row.thumbnail.waited_s for row in rows]
    groups = table_lines(rows)[0].groups
    return Line("", "waited", waited, lambda s: "-" if s is None else number(s), min, groups)


def _best(line: Line | None, rows: Sequence[Row]) -> dict[str, bool]:
    """Whether each row is the best, by its name."""
    marks = [False] * len(rows) if line is None else [best for _, best in line.cells()]
    return {row.name: mark for row, mark in zip(rows, marks, strict=True)}


def _winners(what: str, group: Group, best: Mapping[str, bool]) -> str:
    names = [group.name_of(row) for row in group.rows if best[row.name]]
    return f"{what}: {listed(names)}." if names else "No run is better than another."


def _left_out(rows: Sequence[Row]) -> str:
    if len(rows) <= MOST_PANELS:
        return ""
    return f" The first {MOST_PANELS} of {counted(len(rows), 'run')} are drawn."
