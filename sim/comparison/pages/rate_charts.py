"""Figures of a comparison over several arrival rates: throughput and TTFT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.lines import listed
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import SECONDS, escaped, in_seconds, log_ticks, new_figure, numbers
from kvsim.sim.report.palette import GREY, LINES
from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import plotly.graph_objects as go

    from kvsim.sim.comparison.row import Row

_X: Final = "arrivals (requests/s)"


def rate_charts(rows: Sequence[Row]) -> list[Chart]:
    """Return goodput (without limits: the sustained rate) and TTFT against the arrival rate.

    There are none for a single rate, or when no request was served.
    """
    curves = _curves(rows)
    served = any(row.metrics.ttft_s_p99 is not None for row in rows)
    if not served or all(len(curve) < 2 for curve in curves.values()):
        return []
    limits = any(row.metrics.goodput_requests_per_s is not None for row in rows)
    return [_served_chart(curves, limits=limits), _ttft_chart(curves)]


def _curves(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows that differ only in their rate, by name, lowest rate first."""
    curves: dict[str, list[Row]] = {}
    for row in rows:
        if row.metrics.arrivals_per_s is not None:
            name = row.name.removesuffix(f", rate x {row.rate_scale}")
            curves.setdefault(name, []).append(row)
    return {name: sorted(some, key=_rate) for name, some in curves.items()}


def _served_chart(curves: dict[str, list[Row]], *, limits: bool) -> Chart:
    def served(row: Row) -> float | None:
        metrics = row.metrics
        return metrics.goodput_requests_per_s if limits else metrics.sustained_requests_per_s

    what = "goodput" if limits else "sustained rate"
    figure = new_figure(_X, f"{what} (requests/s)", height=440)
    most = max(_rate(row) for rows in curves.values() for row in rows)
    figure.add_scatter(
        x=numbers([0, most]),
        y=numbers([0, most]),
        name="arrival rate",
        mode="lines",
        line={"color": GREY, "width": 1, "dash": "dot"},
    )
    _add_curves(figure, curves, served)
    best = {
        name: max((rate for row in rows if (rate := served(row))), default=0.0)
        for name, rows in curves.items()
    }
    words = listed([f"{name}: {number(float(value))}" for name, value in best.items()])
    winner = max(best, key=lambda name: best[name])
    return Chart(
        f"{what.capitalize()} against arrival rate",
        figure,
        "a curve leaves the dotted line at the highest rate that the system serves. Beyond that "
        "point, more arrivals do not give more throughput.",
        f"The highest, in requests/s: {words}. The best: {winner}.",
    )


def _ttft_chart(curves: dict[str, list[Row]]) -> Chart:
    figure = in_seconds(new_figure(_X, "TTFT p99", height=440), "y", "TTFT p99 (s)")
    _add_curves(figure, curves, lambda row: row.metrics.ttft_s_p99)
    known = [v for rows in curves.values() for row in rows if (v := row.metrics.ttft_s_p99)]
    if known:
        figure.update_yaxes(**log_ticks(known, seconds), rangemode="normal")
        figure.update_yaxes(title_text="TTFT p99 (logarithmic)")
    else:
        figure.update_yaxes(SECONDS)
    ends = {
        name: [seconds(row.metrics.ttft_s_p99) for row in (rows[0], rows[-1])]
        for name, rows in curves.items()
    }
    words = listed([f"{name}: {' and '.join(both)}" for name, both in ends.items()])
    return Chart(
        "Time to first token against arrival rate",
        figure,
        "the curve is flat at low rates. It becomes steep where the queue starts to grow.",
        f"At the lowest and at the highest rate: {words}.",
    )


def _rate(row: Row) -> float:
    """Return the arrival rate of a row; each row of a curve has one."""
    rate = row.metrics.arrivals_per_s
    assert rate is not None, row.name
    return rate


def _add_curves(
    figure: go.Figure, curves: dict[str, list[Row]], metric: Callable[[Row], float | None]
) -> None:
    for place, (name, rows) in enumerate(curves.items()):
        figure.add_scatter(
            x=numbers([_rate(row) for row in rows]),
            y=numbers([float("nan") if (v := metric(row)) is None else v for row in rows]),
            name=escaped(name),
            mode="lines+markers",
            line=LINES[place % len(LINES)],
        )
