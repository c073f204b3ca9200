"""Figures over a run's time windows: KV memory by state, running and waiting requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.metrics.shares import STATES
from kvsim.sim.metrics.tables import cause_column
from kvsim.sim.recording.waiting_clock import CAUSES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.palette import BLUE, CAUSE_LABELS, SKY, STATE_LABELS
from kvsim.traces.common.text import amount, number

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.sim.report.run_page import RunView

GIB: Final = 2**30
_NOBODY: Final = 1e-9
"""Requests: a difference below this is a rounding error."""


def time_figure(view: RunView, y_title: str) -> go.Figure:
    """Return an empty figure over the time of a run; all such figures have the same time axis."""
    figure = new_figure("time (s)", y_title)
    if view.series["seconds"].any():
        figure.update_xaxes(range=numbers([view.time_axis.start_s, view.time_axis.end_s]))
    return figure


def time_chart(view: RunView, title: str, figure: go.Figure, see: str, summary: str) -> Chart:
    """Return a chart over the time of a run; its text also says where the time axis was cut."""
    return Chart(title, figure, see, f"{summary} {view.time_axis.note}".rstrip())


def memory_chart(view: RunView) -> Chart | str:
    """Mean KV bytes by state in each time window, stacked up to the whole pool."""
    if not view.series["seconds"].any():
        return "KV memory over time: no time passed."
    figure = time_figure(view, "KV memory (GiB)")
    for state in STATES:
        label, colour = STATE_LABELS[state]
        add_area(figure, view, view.series[f"{state}_bytes"] / GIB, label, colour)
    pool_bytes = view.run.setup.pool.pool_bytes
    figure.update_yaxes(range=[0, pool_bytes / GIB])
    shares = ", ".join(f"{s} {100 * view.mean(f'{s}_bytes') / pool_bytes:.1f} %" for s in STATES)
    return time_chart(
        view,
        "KV memory by state",
        figure,
        "the six states add up to the pool. Requests hold the three lowest: token, reserved and "
        "internal. Only the token part stores the KV of tokens.",
        f"Mean over the run, of {amount(pool_bytes)}: {shares}.",
    )


def queue_chart(view: RunView) -> Chart | str:
    """Mean numbers of running and preempted requests, and of new ones by what they wait for."""
    if not view.series["seconds"].any():
        return "Running and waiting requests over time: no time passed."
    figure, series = time_figure(view, "requests"), view.series
    if series["preempted"].any():
        add_area(figure, view, series["preempted"], "preempted, wait again", SKY)
    for cause in CAUSES:
        new = series[cause_column("waiting", cause)] - series[cause_column("preempted", cause)]
        label, colour = CAUSE_LABELS[cause]
        if (new > _NOBODY).any():
            add_area(figure, view, np.maximum(new, 0), f"waiting for {label}", colour)
    line = {"color": BLUE, "width": 2}
    figure.add_scatter(**view.over_time(series["running"]), name="running", mode="lines", line=line)
    counts = ". ".join(
        f"{name.capitalize()}: {number(view.mean(name))} on average, "
        f"{number(float(series[name].max()))} in the fullest window"
        for name in ("running", "waiting")
    )
    return time_chart(
        view,
        "Running, waiting and preempted requests",
        figure,
        "the areas add up to the queue: preempted requests first, then new requests by what they "
        "wait for. The largest area is what binds. If the queue grows while requests arrive, the "
        "server is overloaded.",
        f"{counts}. {_causes_in_words(view, 'waiting', 'Waiting requests')}"
        f"{_causes_in_words(view, 'preempted', 'Preempted requests')}".rstrip(),
    )


def _causes_in_words(view: RunView, who: str, label: str) -> str:
    """What waiting or preempted requests wait for on average; nothing where there are none."""
    words = [
        f"{CAUSE_LABELS[cause][0]} {number(mean, 3)}"
        for cause in CAUSES
        if (mean := view.mean(cause_column(who, cause)))
    ]
    return f"{label} by cause, on average: {', '.join(words)}. " if words else ""


def add_area(
    figure: go.Figure, view: RunView, values: NDArray[np.float64], name: str, colour: str
) -> None:
    """Add one layer of a stack over the time windows of a run."""
    figure.add_scatter(
        **view.over_time(values),
        name=name,
        stackgroup="stack",
        mode="lines",
        line={"width": 0, "color": colour},
        fillcolor=colour,
    )
