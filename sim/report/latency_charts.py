"""Figures of latencies: their distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.readable import seconds
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.palette import LINES
from kvsim.sim.request_columns import PS_PER_S, RequestColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.gap_histogram import GapHistogram
    from kvsim.sim.run import Run

_QUANTILES: Final = np.linspace(0.0, 1.0, 201)
_Curve = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def distribution_chart(run: Run) -> Chart:
    """Share of finished requests (ITL: of token gaps) at or below a latency."""
    columns = RequestColumns.of(run.trace, run.engine.recorder)
    finished = columns.finished()
    curves = {
        "TTFT": _curve(columns.ttft_s()[finished]),
        "TPOT": _curve(columns.tpot_s()[finished]),
        "ITL": _gap_curve(run.engine.recorder.gaps),
        "E2E": _curve(columns.e2e_s()[finished]),
    }
    figure = new_figure("latency (s, logarithmic)", "at or below (%)")
    for (name, (values_s, shares)), line in zip(curves.items(), LINES, strict=False):
        figure.add_scatter(x=numbers(values_s), y=numbers(shares), name=name, line=line)
    figure.update_xaxes(type="log", exponentformat="power", minexponent=2)
    words = [
        f"{name} half below {seconds(float(values[100]))}, 99 % below {seconds(float(values[198]))}"
        for name, (values, _) in curves.items()
        if len(values)
    ]
    return Chart(
        "Latency distributions",
        figure,
        "a steep curve means all are served alike; a long foot to the right is the tail that "
        "users complain about.",
        f"{'; '.join(words)}." if words else "Nothing finished.",
    )


def _curve(values_s: NDArray[np.float64]) -> _Curve:
    defined = values_s[~np.isnan(values_s)]
    if not len(defined):
        return np.empty(0), np.empty(0)
    return np.quantile(defined, _QUANTILES), 100 * _QUANTILES


def _gap_curve(gaps: GapHistogram) -> _Curve:
    if not gaps.num:
        return np.empty(0), np.empty(0)
    values_s = np.array([gaps.quantile_ps(float(q)) for q in _QUANTILES]) / PS_PER_S
    return values_s, 100 * _QUANTILES
