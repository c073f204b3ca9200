"""Measured against fitted: one page of a profile with raw points."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.fit.error_table import GATES_MEAN, error_rows
from kvsim.calibrate.fit.prediction import predicted_us
from kvsim.calibrate.measure.points import HOLD_OUT
from kvsim.calibrate.measure.raw_points import point_of
from kvsim.calibrate.steadiness import spread_of_repeats, steadiness
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import log_ticks, new_figure, numbers
from kvsim.sim.report.page import Head, page
from kvsim.sim.report.palette import CYCLE, GREY
from kvsim.sim.report.tables import table_html
from kvsim.traces.common.text import counted, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import plotly.graph_objects as go

    from kvsim.sim.cost.profile import Profile

_SYMBOLS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "star", "pentagon")
_US_PER_S: Final = 1e6


class Compared(NamedTuple):
    """One point: what was measured and what the profile says, us."""

    block: str
    label: str
    held_out: bool
    measured_us: float
    fitted_us: float


def compared_points(profile: Profile) -> list[Compared]:
    """Points that have a term. Raises ``ValueError`` where a profile holds none."""
    rows = []
    for row in profile.measurement.get("points", []):
        point, timing = point_of(row)
        fitted_us = predicted_us(profile, point)
        if fitted_us is not None:
            label = ", ".join(f"{name} {value:,}" for name, value in point.loads.items())
            held_out = point.role == HOLD_OUT
            rows.append(Compared(point.block, label, held_out, timing.median_us, fitted_us))
    if not rows:
        raise ValueError(
            f"profile {profile.name} holds no raw points to draw; profiles of kvsim calibrate do"
        )
    return rows


def profile_page(profile: Profile) -> Iterator[str]:
    """Parts of one HTML file: times, and the error of each point, by block."""
    rows = compared_points(profile)
    device = profile.measurement.get("setup", {}).get("device", {}).get("product")
    facts = (
        ("source", profile.source),
        ("card", f"{profile.hardware}{f', measured on {device}' if device else ''}"),
        ("layer", profile.model.name),
        ("fidelity", profile.fidelity),
        ("steadiness", steadiness(profile.measurement)),
        ("spread of repeats", spread_of_repeats(profile.measurement)),
    )
    head = Head(f"{profile.name}: measured against fitted", facts)
    return page(head, (_errors_table(profile), _times_chart(rows), _errors_chart(rows)))


def _errors_table(profile: Profile) -> str:
    heads = ("block", "median/p90", "points", "gate")  # two columns would not fit a phone
    rows = [
        (row.block, f"{row.median.removesuffix(' %')}/{row.p90}", row.points, row.verdict)
        for row in error_rows(profile)
    ]
    return (
        "<h2>Errors on points held out</h2>\n"
        '<p class="see"><b>What to see:</b> how far off the profile was where its fit had seen '
        f"nothing; {escape(GATES_MEAN)}.</p>\n"
        f"{table_html('Errors on points held out', heads, rows, last_is_words=True)}"
    )


def _times_chart(rows: Sequence[Compared]) -> Chart:
    figure = new_figure("measured (s, logarithmic)", "fitted (s, logarithmic)", height=480)
    _add_points(figure, rows, lambda row: row.fitted_us / _US_PER_S)
    measured_s = [row.measured_us / _US_PER_S for row in rows]
    ends = [min(measured_s), max(measured_s)]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"dash": "dot", "color": GREY}, name="equal"
    )
    fitted_s = [row.fitted_us / _US_PER_S for row in rows]
    figure.update_xaxes(**log_ticks(measured_s, seconds))
    figure.update_yaxes(**log_ticks(fitted_s, seconds), rangemode="normal")
    figure.update_yaxes(automargin=True, title_standoff=6)
    held = sum(row.held_out for row in rows)
    return Chart(
        "Fitted against measured",
        figure,
        "points on the dotted line are fitted exactly; hollow marks took no part in the fit.",
        f"{len(rows)} points, {held} of them held out.",
    )


def _errors_chart(rows: Sequence[Compared]) -> Chart:
    figure = new_figure("measured (s, logarithmic)", "error of the fit (%)", height=420)
    _add_points(figure, rows, _error_percent)
    measured_s = [row.measured_us / _US_PER_S for row in rows]
    figure.update_xaxes(**log_ticks(measured_s, seconds))
    return Chart(
        "Error of the fit",
        figure,
        "a band around zero is noise; a slope or a bend is a term that is missing.",
        " ".join(_worst(rows)),
    )


def _worst(rows: Sequence[Compared]) -> Iterator[str]:
    """The points held out apart from the others: a table is exact on its own points."""
    for kind, held_out in (("held out", True), ("that the fit saw", False)):
        chosen = [row for row in rows if row.held_out == held_out]
        if chosen:
            worst = max(chosen, key=lambda row: abs(_error_percent(row)))
            yield (
                f"The worst of {counted(len(chosen), 'point')} {kind} is "
                f"{_error_percent(worst):+.1f} % off, at {worst.block}, {worst.label}."
            )


def _error_percent(row: Compared) -> float:
    return 100 * (row.fitted_us / row.measured_us - 1)


def _add_points(
    figure: go.Figure, rows: Sequence[Compared], value: Callable[[Compared], float]
) -> None:
    """One kind of mark a block, hollow where held out."""
    blocks = list(dict.fromkeys(row.block for row in rows))
    for block, colour, symbol in zip(blocks, CYCLE, _SYMBOLS, strict=False):
        for held_out in (False, True):
            chosen = [row for row in rows if row.block == block and row.held_out == held_out]
            if chosen:
                figure.add_scatter(
                    x=numbers([row.measured_us / _US_PER_S for row in chosen]),
                    y=numbers([value(row) for row in chosen]),
                    mode="markers",
                    marker={"color": colour, "symbol": symbol + "-open" * held_out},
                    name=escape(f"{block}, held out" if held_out else block),
                    text=[escape(row.label) for row in chosen],
                )
    figure.update_layout(hovermode="closest")
