"""Figures over a run's time windows: the pool by state, who runs and who waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.memory_shares import STATES
from kvsim.sim.queue_clock import CAUSES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.palette import BLUE, GREEN, ORANGE, PALE, PURPLE, STATE_LABELS, VERMILLION

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kvsim.sim.report.run_view import RunView

GIB: Final = 2**30
TIME: Final = "time (s)"
_CAUSES: Final = {
    "step": ("the step in progress", PALE),
    "seats": ("a seat", PURPLE),
    "budget": ("the token budget", ORANGE),
    "blocks": ("KV blocks", VERMILLION),
    "admission rule": ("an admission rule", GREEN),
}
"""What requests wait for, in words, and its colour."""


def memory_chart(view: RunView) -> Chart:
    """Mean KV bytes by state in each time window, stacked up to the whole pool."""
    figure = new_figure(TIME, "KV memory (GiB)")
    for state in STATES:
        label, colour = STATE_LABELS[state]
        add_area(figure, view, numbers(view.series[f"{state}_bytes"] / GIB), label, colour)
    pool_bytes = view.run.setup.pool.pool_bytes
    shares = ", ".join(f"{s} {100 * view.mean(f'{s}_bytes') / pool_bytes:.1f} %" for s in STATES)
    return Chart(
        "KV memory by state",
        figure,
        "the six states add up to the pool; whatever is not token holds no token of a request.",
        f"Of {pool_bytes / GIB:.2f} GiB, mean over the run: {shares}.",
    )


def queue_chart(view: RunView) -> Chart:
    """Mean numbers of running requests, and of waiting ones by what they wait for."""
    figure, series = new_figure(TIME, "requests"), view.series
    words = []
    for cause in CAUSES:
        column = f"waiting_{cause.replace(' ', '_')}"
        label, colour = _CAUSES[cause]
        if series[column].any():
            add_area(figure, view, numbers(series[column]), f"waiting for {label}", colour)
            words.append(f"{label} {view.mean(column):.3g}")
    line = {"color": BLUE, "width": 2}
    figure.add_scatter(
        x=view.middle_s, y=numbers(series["running"]), name="running", mode="lines", line=line
    )
    counts = ", ".join(
        f"{name} {view.mean(name):.4g} in the mean, {series[name].max():.4g} at most"
        for name in ("running", "waiting")
    )
    return Chart(
        "Running and waiting requests",
        figure,
        "the areas add up to the queue, preempted requests included; the widest colour is what "
        "binds. A queue that grows while requests arrive means overload.",
        f"{counts}. Waiting for, in the mean: {', '.join(words) or 'nothing'}.",
    )


def add_area(
    figure: go.Figure, view: RunView, values: list[float | None], name: str, colour: str
) -> None:
    """One layer of a stack over the windows of a run."""
    figure.add_scatter(
        x=view.middle_s,
        y=values,
        name=name,
        stackgroup="stack",
        mode="lines",
        line={"width": 0, "color": colour},
        fillcolor=colour,
    )
