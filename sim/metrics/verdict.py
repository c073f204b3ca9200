"""Verdict of a run: stable, overloaded (and what binds), or too short for a percentile.

A run is overloaded in two cases. The queue grows after the ramp-up, while requests arrive, by more
than three standard deviations of a random walk with as many arrivals and departures,
``3 * sqrt(2 n)``. Or the backlog at the last arrival takes longer to start than all arrivals took.
A run is too short for a percentile ``q`` with fewer than ten finished requests beyond it; the
verdict trusts ``q`` from ``n * (1 - q) >= 10``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.documents.summary import Verdict
from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from kvsim.sim.metrics.phases import Phases, Windows
    from kvsim.sim.metrics.request_columns import RequestColumns
    from kvsim.sim.recording.recorder import Recorder

SAMPLES_BEYOND: Final = 10
_FEWEST_WINDOWS: Final = 8
_PERCENTILES: Final = (50, 90, 99)
_LABELS: Final = {"token_budget": "the token budget of a step", "blocks": "KV blocks"}


def judge(columns: RequestColumns, recorder: Recorder, phases: Phases, windows: Windows) -> Verdict:
    """Return the verdict from the waiting series and the number of finished requests."""
    trusted = trusted_percentile(int(columns.finished().sum()))
    slope, growth = _queue_growth(phases, windows)
    binds = _binding_cause(recorder)
    label = _LABELS.get(binds, binds)
    start_ps, end_ps = phases.steady_start_ps, phases.last_arrival_ps
    arrivals = int(((columns.arrival_ps > start_ps) & (columns.arrival_ps <= end_ps)).sum())

    def verdict(kind: str, what: str, *, names_cause: bool = False) -> Verdict:
        return Verdict(
            kind=kind,
            text=f"{kind}{what}",
            binds=binds if names_cause else None,
            queue_slope_per_s=slope,
            trusted_percentile=trusted,
        )

    if slope is not None and growth > 3 * math.sqrt(2 * arrivals):
        what = (
            f": after the ramp-up the queue grows by {number(slope, 3)} requests a second; "
            f"what binds: {label}"
        )
        return verdict("overloaded", what, names_cause=True)
    backlog_ps = _backlog_ps(phases, windows, recorder.width_ps)
    arriving_ps = phases.last_arrival_ps - phases.first_arrival_ps
    if backlog_ps > max(arriving_ps, _FEWEST_WINDOWS * recorder.width_ps):
        what = (
            f": after arrivals of {seconds(arriving_ps / PS_PER_S)} the backlog takes "
            f"{seconds(backlog_ps / PS_PER_S)} to start; what binds: {label}"
        )
        return verdict("overloaded", what, names_cause=True)
    if trusted != _PERCENTILES[-1]:
        enough = f"enough for p{trusted}" if trusted else "too few for any"
        return verdict(
            "too short", f" for p99 ({int(columns.finished().sum()):,} finished: {enough})"
        )
    return verdict("stable", ": the queue does not grow")


def trusted_percentile(num_finished: int) -> int | None:
    """Return the highest of p50, p90, p99 with ten finished requests beyond it, or ``None``."""
    known = [q for q in _PERCENTILES if num_finished * (100 - q) >= SAMPLES_BEYOND * 100]
    return known[-1] if known else None


def _queue_growth(phases: Phases, windows: Windows) -> tuple[float | None, float]:
    """Return slope (requests a second) and rise of the waiting series in the steady part."""
    inside = (windows.start_ps >= phases.steady_start_ps) & (
        windows.start_ps + windows.covered_ps <= phases.last_arrival_ps
    )
    if int(inside.sum()) < _FEWEST_WINDOWS:
        return None, 0.0
    times_s = windows.start_ps[inside] / PS_PER_S
    centred = times_s - times_s.mean()
    slope = float(centred @ windows.waiting[inside] / (centred @ centred))
    return slope, slope * float(np.ptp(times_s))


def _backlog_ps(phases: Phases, windows: Windows, width_ps: int) -> int:
    """Return the time from the last arrival to the end of the last window with waiting requests."""
    after = windows.start_ps + width_ps > phases.last_arrival_ps
    waiting = windows.start_ps[after & (windows.waiting > 0)]
    if not len(waiting):
        return 0
    return min(int(waiting[-1]) + width_ps, phases.end_ps) - phases.last_arrival_ps


def _binding_cause(recorder: Recorder) -> str:
    """Return the cause with the most request-seconds, without the step in progress."""
    causes = {name: ps for name, ps in recorder.waited_ps.items() if name != "step"}
    return max(causes, key=lambda name: causes[name])
