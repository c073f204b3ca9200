"""Figures over a run's time windows: the pool by state, who runs and who waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.metrics.shares import STATES
from kvsim.sim.metrics.tables import cause_column
from kvsim.sim.recording.waiting_clock import CAUSES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.palette import (
    BLUE,
    GREEN,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    STATE_LABELS,
    VERMILLION,
)
from kvsim.traces.common.text import amount, number

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.sim.report.run_page import RunView

GIB: Final = 2**30
_CAUSES: Final = {
    "step": ("the step in progress", PALE),
    "max_num_seqs": ("a free place in the batch", PURPLE),
    "token_budget": ("the token budget", ORANGE),
    "blocks": ("KV blocks", VERMILLION),
    "admission rule": ("an admission rule", GREEN),
}
"""What requests wait for, in words, and its colour."""
_NOBODY: Final = 1e-9
"""Requests: what rounding leaves of a difference."""


def time_figure(view: RunView, y_title: str) -> go.Figure:
    """An empty figure over the time of a run: the same for all, whatever is drawn in it."""
    start_s, seconds = view.series["start_s"], view.series["seconds"]
    figure = new_figure("time (s)", y_title)
    if seconds.any():
        figure.update_xaxes(range=numbers([start_s[0], start_s[-1] + seconds[-1]]))
    return figure


def memory_chart(view: RunView) -> Chart | str:
    """Mean KV bytes by state in each time window, stacked up to the whole pool."""
    if not view.series["seconds"].any():
        return "No KV memory over time: no time passed."
    figure = time_figure(view, "KV memory (GiB)")
    for state in STATES:
        label, colour = STATE_LABELS[state]
        add_area(figure, view, view.series[f"{state}_bytes"] / GIB, label, colour)
    pool_bytes = view.run.setup.pool.pool_bytes
    shares = ", ".join(f"{s} {100 * view.mean(f'{s}_bytes') / pool_bytes:.1f} %" for s in STATES)
    return Chart(
        "KV memory by state",
        figure,
        "the six states add up to the pool; whatever is not token holds no token of a request.",
        f"Of {amount(pool_bytes)}, mean over the run: {shares}.",
    )


def queue_chart(view: RunView) -> Chart | str:
    """Mean numbers of running, of preempted, and of new requests by what they wait for."""
    if not view.series["seconds"].any():
        return "No running and waiting requests over time: no time passed."
    figure, series = time_figure(view, "requests"), view.series
    if series["preempted"].any():
        add_area(figure, view, series["preempted"], "preempted, wait again", SKY)
    for cause in CAUSES:
        new = series[cause_column("waiting", cause)] - series[cause_column("preempted", cause)]
        label, colour = _CAUSES[cause]
        if (new > _NOBODY).any():
            add_area(figure, view, np.maximum(new, 0), f"waiting for {label}", colour)
    line = {"color": BLUE, "width": 2}
    figure.add_scatter(**view.over_time(series["running"]), name="running", mode="lines", line=line)
    counts = ". ".join(
        f"{name.capitalize()} {number(view.mean(name))} in the mean, "
        f"{number(float(series[name].max()))} in the fullest window"
        for name in ("running", "waiting")
    )
    return Chart(
        "Running, waiting and preempted requests",
        figure,
        "the areas add up to the queue: requests that were preempted, then new ones; the widest "
        "colour is what binds. A queue that grows while requests arrive means overload.",
        f"{counts}. {_causes_in_words(view, 'waiting', 'Waiting')}"
        f"{_causes_in_words(view, 'preempted', 'Of them preempted')}".rstrip(),
    )


def _causes_in_words(view: RunView, who: str, label: str) -> str:
    """What the mean number of waiting, or of preempted, requests waits for; nothing for none."""
    words = [
        f"{_CAUSES[cause][0]} {number(mean, 3)}"
        for cause in CAUSES
        if (mean := view.mean(cause_column(who, cause)))
    ]
    return f"{label}, in the mean, for: {', '.join(words)}. " if words else ""


def add_area(
    figure: go.Figure, view: RunView, values: NDArray[np.float64], name: str, colour: str
) -> None:
    """One layer of a stack over the windows of a run."""
    figure.add_scatter(
        **view.over_time(values),
        name=name,
        stackgroup="stack",
        mode="lines",
        line={"width": 0, "color": colour},
        fillcolor=colour,
    )
