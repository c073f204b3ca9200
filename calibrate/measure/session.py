"""Measure points, an anchor before and after each repeat: no average over a drifting clock."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.measure.anchor import CPU_RULE, Anchor, AnchorRule
from kvsim.calibrate.measure.timing import Timing, TimingRule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.calibrate.measure.bench import Bench
    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.raw_points import RawPoints
    from kvsim.calibrate.measure.timing import Timer

PATIENCE_S: Final = 60.0
"""A point may lose so much to repeats that do not count, or as much as those that count took."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How points are timed, and how the anchor is read beside them."""

    timing: TimingRule
    anchor: AnchorRule = CPU_RULE


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
    """Measure what ``raw`` lacks, point by point; Ctrl-C loses one point at most.

    A repeat counts where the anchor is close enough to its reference both before and after it (on a
    GPU: five repeats at a time). Others are taken again, by which a point takes up to
    ``PATIENCE_S`` longer, or twice as long where that is more; then the session is refused. It is
    the repeats that are judged and no longer stretch of time, as a CPU under a host may be half as
    fast for 0.2 s, several times within any ten seconds
    (:mod:`kvsim.calibrate.measure.anchor`).

    The reference is what the anchor took in the first second, its fast tenth. Where the anchor is
    faster later, that second lay in a slow stretch, or the whole machine was slow until then: the
    reference is taken anew, and points are measured again whose own anchors are now too slow.

    Of the repeats that count, those at the machine's best are preferred: for others a point waits
    ``wait_s``, then takes the steadiest.

    What anchors do not see: a slow stretch that begins and ends within one repeat. Repeats of
    some hundred ms may have one inside, so of these too there are several, and the median counts.

    Parameters
    ----------
    on_point : callable
        Called after each point that ``raw`` lacked; once, though it may be measured again.
    clock_state : callable
        Clocks and temperature in words, kept after each block.

    Raises
    ------
    ValueError
        Where the clock drifts: what was measured before stays in the file.
    """
    reference_us = raw.anchor_us or math.inf
    anchor = Anchor(bench.anchor(), timer, rules.anchor, reference_us)
    if raw.anchor_us is None:
        anchor.take_reference()
    told = {point.key for point in points if point in raw}
    while missing := [point for point in points if not _counts(point, raw, anchor)]:
        for _, block in itertools.groupby(missing, key=lambda point: point.block):
            for point in block:
                timing = _steady_timing(point, bench, timer, rules.timing, anchor)
                raw.anchor_us = anchor.reference_us
                raw.add(point, timing)
                if point.key not in told:
                    told.add(point.key)
                    on_point(point)
            if state := clock_state():
                raw.clocks.append(state)


def _counts(point: Point, raw: RawPoints, anchor: Anchor) -> bool:
    """Whether a point was measured, and on a machine as fast as the reference now says."""
    return point in raw and anchor.is_steady(raw.timings[point.key][1].anchor_us)


def _steady_timing(
    point: Point, bench: Bench, timer: Timer, rule: TimingRule, anchor: Anchor
) -> Timing:
    """Repeats that count, as many as the rule asks for; those that do not are not in its budget.

    Some of a machine that is slower than its best, though steady, are taken beside those at its
    best for ``wait_s``; the steadiest count then.
    """
    workload = bench.workload(point)
    start_s = timer.now_s()
    runners = itertools.cycle(timer.runners(workload))
    rounds: list[_Round] = []
    taken, lost_s, waited_s = 0, 0.0, 0.0
    before_us = anchor.read_us()
    while True:
        own_s = timer.now_s() - start_s - lost_s - waited_s
        best = sum(len(one.times_us) for one in rounds if anchor.is_best(one.anchor_us))
        steady = sum(len(one.times_us) for one in rounds)
        if not rule.goes_on(best, own_s) or (
            not rule.goes_on(steady, own_s) and waited_s >= rule.wait_s
        ):
            return _timing(rounds, rule, workload.rotated_bytes, taken)
        round_s = timer.now_s()
        count = min(anchor.rule.every, rule.repeats - best)
        times_us = [next(runners)() for _ in range(count)]
        taken += count
        after_us = anchor.read_us()
        spent_s = timer.now_s() - round_s
        if not (anchor.is_steady(before_us) and anchor.is_steady(after_us)):
            lost_s += spent_s
            if lost_s > max(PATIENCE_S, own_s):
                drift = max(anchor.drift(before_us), anchor.drift(after_us), key=abs)
                raise ValueError(_refusal(point, taken - steady, taken, drift, anchor))
        else:
            rounds.append(_Round(max(before_us, after_us), times_us))
            if not anchor.is_best(rounds[-1].anchor_us):
                waited_s += spent_s
        before_us = after_us


class _Round(NamedTuple):
    """Repeats between two readings of the anchor; ``anchor_us`` is the slower one."""

    anchor_us: float
    times_us: list[float]


def _timing(rounds: list[_Round], rule: TimingRule, rotated_bytes: int, taken: int) -> Timing:
    """The steadiest of the rounds, as many as the rule asks for."""
    rounds = sorted(rounds, key=lambda one: one.anchor_us)
    times = [us for one in rounds for us in one.times_us][: rule.repeats]
    anchors = [one.anchor_us for one in rounds for _ in one.times_us][: rule.repeats]
    return Timing(tuple(times), rotated_bytes, taken - len(times), statistics.median(anchors))


def _refusal(point: Point, discarded: int, taken: int, drift: float, anchor: Anchor) -> str:
    shown = round(100 * drift)
    if abs(shown) <= 100 * anchor.rule.max_drift:  # it is more than what is allowed, and reads so
        shown += 1 if drift > 0 else -1
    return (
        f"the clock drifts: beside {discarded} of {taken} repeats of {point.key} a fixed piece of "
        f"work took longer or shorter than at first, last {shown:+} % (allowed: "
        f"{100 * anchor.rule.max_drift:g} %). Close other work, let the device cool, lock its "
        "clocks (nvidia-smi --lock-gpu-clocks), and run the same command again: it goes on where "
        "it stopped, or starts anew if you remove the file of points. On a virtual machine whose "
        "CPUs are moved about, measure one thread (OMP_NUM_THREADS=1). Or allow more with "
        "--max-drift"
    )
