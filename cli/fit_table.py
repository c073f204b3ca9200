"""Lines that show a fit: terms with their reading, errors against gates, what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.table import wrapped
from kvsim.sim.readable import number

if TYPE_CHECKING:
    from kvsim.calibrate.fit import Calibration
    from kvsim.calibrate.reading import Reading
    from kvsim.sim.profile import Profile


def fit_lines(calibration: Calibration) -> list[str]:
    """80 columns: what was read, terms, errors on unseen points, assumptions, warnings."""
    from kvsim.calibrate.reading import readings

    profile = calibration.profile
    split = f", one of {profile.tp} ranks" if profile.tp > 1 else ""
    lines = [
        *wrapped("profile", f"{profile.name}: {profile.fidelity}"),
        *wrapped("of", f"{profile.model.name} on {profile.hardware}{split}, one layer"),
        *wrapped("from", profile.source),
        "",
        f"{'term':<22}{'value':>10}{'+-':>9}  {'unit':<11}reading",
    ]
    rows = readings(calibration)
    for found in calibration.fits:
        condition = f"condition {found.fit.condition:,.0f}, {found.fit.num_points:,} points"
        lines.append(f"{found.block:<22}{condition:>19}")
        lines += [_term_line(row) for row in rows if row.block == found.block]
    return [*lines, "", *error_lines(profile), "", *_assumed_lines(profile)]


def _term_line(row: Reading) -> str:
    share = f"{100 * row.standard_error / row.value:.1f} %" if row.value else "-"
    return f"  {row.name:<20}{number(row.value):>10}{share:>9}  {row.unit:<11}{row.says}".rstrip()


def error_lines(profile: Profile) -> list[str]:
    """Errors by block, the gate of each, and a warning above 10 % at the median."""
    from kvsim.calibrate.gates import gate_of
    from kvsim.sim.profile import WARN_MEDIAN

    lines = [f"{'error on unseen points':<28}{'median':>9}{'p90':>9}{'points':>9}  gate"]
    for block, found in profile.hold_out.items():
        gate = gate_of(block, profile.hardware)
        verdict = ""
        if gate is not None:
            limits = f"{100 * gate.median:.0f}/{100 * gate.p90:.0f} %"
            verdict = f"{limits} {'passed' if gate.passed(found) else 'MISSED'}"
        if found.median > WARN_MEDIAN:
            verdict = f"{verdict} warning: above 10 %".strip()
        numbers = f"{100 * found.median:>7.1f} %{100 * found.p90:>7.1f} %{found.points:>9,}"
        lines.append(f"  {block:<26}{numbers}  {verdict}".rstrip())
    return lines


def _assumed_lines(profile: Profile) -> list[str]:
    lines: list[str] = []
    for sentence in profile.assumed:
        lines += wrapped("" if lines else "assumed", sentence, hang=2)
    return lines
