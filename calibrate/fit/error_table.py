"""Errors of a profile on points its fit did not see, by block, in the words of all outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.fit.gates import gate_of
from kvsim.sim.cost.profile import WARN_MEDIAN
from kvsim.traces.common.text import percent

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import Profile

GATES_MEAN: Final = "gate: median/p90 that an error may have; MISSED: one of the two is larger"
"""Below every table that has gates."""


class ErrorRow(NamedTuple):
    """A block: ``35.7 %``, ``51.7 %``, ``4``, ``5/20 % MISSED warning: above 10 %``."""

    block: str
    median: str
    p90: str
    points: str
    verdict: str
    """Gate, whether it was passed, and a warning above 10 % at the median; empty without any."""


def error_rows(profile: Profile) -> list[ErrorRow]:
    """Rows in the order of :attr:`kvsim.sim.cost.profile.Profile.hold_out`."""
    rows = []
    for block, found in profile.hold_out.items():
        gate, verdict = gate_of(block, profile.hardware), []
        medians, p90s = [WARN_MEDIAN], []
        if gate is not None:
            medians, p90s = [WARN_MEDIAN, gate.median], [gate.p90]
            verdict.append(f"{100 * gate.median:.0f}/{100 * gate.p90:.0f} %")
            verdict.append("passed" if gate.passed(found) else "MISSED")
        if found.median > WARN_MEDIAN:
            verdict.append(f"warning: above {100 * WARN_MEDIAN:.0f} %")
        median, p90 = percent(found.median, *medians), percent(found.p90, *p90s)
        rows.append(ErrorRow(block, median, p90, f"{found.points:,}", " ".join(verdict)))
    return rows
