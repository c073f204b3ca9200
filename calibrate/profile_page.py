"""Measured against fitted: one plotly page of a profile with raw points."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.calibrate.measure.points import HOLD_OUT
from kvsim.calibrate.measure.raw_points import point_of
from kvsim.calibrate.prediction import predicted_us

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.profile import Profile


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


def write_profile_page(profile: Profile, path: Path) -> None:
    """Write times, and the error of each point, by block; hollow marks were held out."""
    from plotly.subplots import make_subplots

    rows = compared_points(profile)
    figure = make_subplots(
        rows=2,
        cols=1,
        subplot_titles=("fitted against measured", "error of the fit"),
        vertical_spacing=0.12,
    )
    colours = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
    blocks = list(dict.fromkeys(row.block for row in rows))
    for block, colour in zip(blocks, colours, strict=False):
        for held_out in (False, True):
            chosen = [row for row in rows if row.block == block and row.held_out == held_out]
            if not chosen:
                continue
            measured = [row.measured_us for row in chosen]
            errors = [100 * (row.fitted_us / row.measured_us - 1) for row in chosen]
            marker = {"color": colour, "symbol": "circle-open" if held_out else "circle"}
            name = f"{block}, held out" if held_out else block
            for number, values in ((1, [row.fitted_us for row in chosen]), (2, errors)):
                figure.add_scatter(
                    x=measured,
                    y=values,
                    mode="markers",
                    marker=marker,
                    name=name,
                    legendgroup=name,
                    showlegend=number == 1,
                    text=[row.label for row in chosen],
                    row=number,
                    col=1,
                )
    ends = [min(row.measured_us for row in rows), max(row.measured_us for row in rows)]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"dash": "dot", "color": "#888"}, name="equal", row=1,
        col=1,
    )  # fmt: skip
    figure.update_xaxes(type="log", title_text="measured (us)")
    figure.update_yaxes(type="log", title_text="fitted (us)", row=1, col=1)
    figure.update_yaxes(title_text="error (%)", row=2, col=1)
    figure.update_layout(
        title=f"{profile.name}: {profile.source}", template="plotly_white", height=900
    )
    figure.write_html(path, include_plotlyjs=True, div_id="profile")
