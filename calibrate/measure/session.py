"""Measure points in groups, an anchor before and after each: no average over a drifting clock.

The anchor is work that is always the same. Where it takes longer or shorter after a group than the
session's first one did, the group is measured again, and after ``TRIES`` the session is refused:
its points would be those of several machines. The fastest of the anchor's repeats counts, so that
other work on the machine, which slows some repeats, is not taken for a slower clock.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.calibrate.measure.timing import TimingRule, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.calibrate.measure.bench import Bench
    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.raw_points import RawPoints
    from kvsim.calibrate.measure.timing import Timer, Timing

GROUP_POINTS: Final = 6
TRIES: Final = 3
ANCHOR_RULE: Final = TimingRule(repeats=1000, budget_s=0.3, min_repeats=3)


@dataclass(frozen=True, slots=True)
class Rules:
    """How points are timed, and how far the anchor may move (``max_drift`` = 0.1 is 10 %)."""

    timing: TimingRule
    max_drift: float

    def __post_init__(self) -> None:
        if self.max_drift <= 0:
            raise ValueError(f"max_drift is {self.max_drift}; it must be above 0")


def run_session(
    points: Sequence[Point],
    bench: Bench,
    timer: Timer,
    rules: Rules,
    raw: RawPoints,
    *,
    on_point: Callable[[Point], object] = lambda _: None,
    clock_state: Callable[[], str] = str,
) -> None:
    """Measure what ``raw`` lacks, group by group; Ctrl-C loses one group at most.

    Parameters
    ----------
    on_point : callable
        Called after each point that ``raw`` lacked; once, though a drift may repeat it.
    clock_state : callable
        Clocks and temperature in words, kept after each group.

    Raises
    ------
    ValueError
        Where the clock drifts: what was measured before stays in the file.
    """
    missing = [point for point in points if point not in raw]
    for start in range(0, len(missing), GROUP_POINTS):
        group = missing[start : start + GROUP_POINTS]
        raw.add(_steady_group(group, bench, timer, rules, raw, on_point))
        if state := clock_state():
            raw.clocks.append(state)


def anchor_us(bench: Bench, timer: Timer) -> float:
    """Fastest of the anchor's repeats, us."""
    return min(measure(bench.anchor(), timer, ANCHOR_RULE).times_us)


def _steady_group(
    group: Sequence[Point],
    bench: Bench,
    timer: Timer,
    rules: Rules,
    raw: RawPoints,
    on_point: Callable[[Point], object],
) -> dict[str, tuple[Point, Timing]]:
    """Timings of a group after which the anchor takes as long as at first."""
    drift = 0.0
    told = set[str]()
    for _ in range(TRIES):
        if not raw.timings:
            raw.anchor_us = statistics.median(anchor_us(bench, timer) for _ in range(3))
        assert raw.anchor_us is not None, "a file with points has their anchor"
        measured = {}
        for point in group:
            measured[point.key] = point, measure(bench.workload(point), timer, rules.timing)
            if point.key not in told:
                told.add(point.key)
                on_point(point)
        now_us = anchor_us(bench, timer)
        raw.anchors_us.append(round(now_us, 3))
        drift = now_us / raw.anchor_us - 1
        if abs(drift) <= rules.max_drift:
            return measured
    blocks = ", ".join(dict.fromkeys(point.block for point in group))
    raise ValueError(
        f"the clock drifts: while {blocks} was measured, {TRIES} times, a fixed piece of work came "
        f"to take {100 * drift:+.0f} % against the first time (allowed: "
        f"{100 * rules.max_drift:g} %). Close other work, let the device cool or lock its clocks "
        "(nvidia-smi --lock-gpu-clocks), and run the same command again: it goes on where it "
        "stopped. Or allow more with --max-drift"
    )
