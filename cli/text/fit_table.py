"""Lines that show a fit: terms with their reading, errors against gates, what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.text.table import wrapped
from kvsim.traces.common.text import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.calibrate.fit.fit import Calibration
    from kvsim.calibrate.fit.reading import Reading
    from kvsim.sim.cost.profile import Profile


def fit_lines(calibration: Calibration) -> list[str]:
    """80 columns: what was read, terms, errors on unseen points, assumptions, warnings."""
    from kvsim.calibrate.fit.reading import readings

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
    conditions = {found.block: found.fit.condition for found in calibration.fits}
    lines += ["", *error_lines(profile), *condition_lines(conditions)]
    return [*lines, "", *_assumed_lines(profile)]


def condition_lines(conditions: Mapping[str, float]) -> list[str]:
    """Warning of the blocks some of whose terms cannot be told apart, none where all can."""
    from kvsim.calibrate.fit.max_affine import TOO_CONDITIONED

    blocks = [block for block, condition in conditions.items() if condition > TOO_CONDITIONED]
    if not blocks:
        return []
    text = (
        f"{', '.join(blocks)}: condition number above {TOO_CONDITIONED:,.0f}, some terms cannot be "
        "told apart; their sum is right where loads are like the measured ones"
    )
    return wrapped("warning", text)


def _term_line(row: Reading) -> str:
    share = f"{100 * row.standard_error / row.value:.1f} %" if row.value else "-"
    return f"  {row.name:<20}{number(row.value):>10}{share:>9}  {row.unit:<11}{row.says}".rstrip()


def error_lines(profile: Profile) -> list[str]:
    """80 columns: errors by block, the gate of each, a warning above 10 % at the median."""
    from kvsim.calibrate.fit.error_table import GATES_MEAN, error_rows

    lines = [f"{'error, unseen points':<20}{'median':>8}{'p90':>8}{'points':>8}  gate"]
    for row in error_rows(profile):
        numbers = f" {row.median:>7} {row.p90:>7} {row.points:>7}"
        lines.append(f"  {row.block:<18}{numbers}  {row.verdict}".rstrip())
    return [*lines, GATES_MEAN]


def _assumed_lines(profile: Profile) -> list[str]:
    lines: list[str] = []
    for sentence in profile.assumed:
        lines += wrapped("" if lines else "assumed", sentence, hang=2)
    return lines
