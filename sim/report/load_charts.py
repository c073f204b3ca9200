"""Figures over a run's time windows: the pool by state, who runs and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.memory_shares import STATES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.palette import BLUE, STATE_LABELS, VERMILLION
from kvsim.sim.run_tables import series_table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from kvsim.sim.run import Run

GIB: Final = 2**30
TIME: Final = "time (s)"


def memory_chart(run: Run) -> Chart:
    """Mean KV bytes by state in each time window, stacked up to the whole pool."""
    table = series_table(run.engine.recorder, run.setup.pool)
    middle_s = numbers(table["start_s"] + table["seconds"] / 2)
    figure = new_figure(TIME, "KV memory (GiB)")
    means = {}
    for state in STATES:
        values = table[f"{state}_bytes"] / GIB
        means[state] = _mean(values, table["seconds"])
        label, colour = STATE_LABELS[state]
        figure.add_scatter(
            x=middle_s,
            y=numbers(values),
            name=label,
            stackgroup="pool",
            mode="lines",
            line={"width": 0, "color": colour},
            fillcolor=colour,
        )
    total = run.setup.pool.pool_bytes / GIB
    shares = ", ".join(f"{state} {100 * mean / total:.1f} %" for state, mean in means.items())
    return Chart(
        "KV memory by state",
        figure,
        "the six states add up to the pool; whatever is not token holds no token of a request.",
        f"Of {total:.2f} GiB, mean over the run: {shares}.",
    )


def queue_chart(run: Run) -> Chart:
    """Mean numbers of running and waiting requests in each time window."""
    table = series_table(run.engine.recorder, run.setup.pool)
    middle_s = numbers(table["start_s"] + table["seconds"] / 2)
    figure = new_figure(TIME, "requests")
    for name, colour in (("running", BLUE), ("waiting", VERMILLION)):
        figure.add_scatter(x=middle_s, y=numbers(table[name]), name=name, line={"color": colour})
    words = ", ".join(
        f"{name} {_mean(table[name], table['seconds']):.4g} in the mean, {table[name].max():.4g} "
        "at most"
        for name in ("running", "waiting")
    )
    return Chart(
        "Running and waiting requests",
        figure,
        "a queue that grows while requests arrive means overload; one that drains was a burst.",
        f"Over windows of {table['seconds'][0]:.3g} s: {words}.",
    )


def _mean(values: ArrayLike, weights: ArrayLike) -> float:
    return float(np.average(values, weights=weights)) if np.any(weights) else 0.0
