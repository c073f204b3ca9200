"""Runs of a comparison whose pools are watched while they fill, side by side on one clock."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.block_map import BlockRecording
from kvsim.sim.comparison.runs import Case, Task, num_requests, run_case
from kvsim.sim.comparison.turns import in_turns
from kvsim.sim.engine.listener import ScheduleListener

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.sim.comparison.row import Row
    from kvsim.sim.comparison.runs import OnProgress
    from kvsim.sim.comparison.turns import Marks
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.run.options import RunOptions
    from kvsim.traces.trace.trace import Trace

    Watch = Callable[[Sequence["LivePool"], int], None]

MOST_IN_STEP: Final = 8
"""Runs that are watched at a time: more have no room on a screen, and all keep their snapshots."""


class LivePool(NamedTuple):
    """A run in progress: what is known of it, and what it has recorded by now."""

    case: Case
    trace: Trace
    recording: BlockRecording


class _Marking(ScheduleListener):
    """Waits for its turn after each scheduling call."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Let the others catch up."""
        self._marks.passed(now_ps)


def run_in_step(
    traces: Sequence[Trace],
    cases: Sequence[Case],
    options: RunOptions,
    on_progress: OnProgress,
    watch: Watch,
) -> list[Row]:
    """Rows of the cases, at most ``MOST_IN_STEP`` at a time, then the next ones.

    ``on_progress`` and ``watch``, with the pools that fill and the time they have come to (ps), are
    called here after every scheduling call; what they raise stops all runs. Errors as
    :func:`~kvsim.sim.comparison.processes.run_in_processes`.
    """
    task = Task(traces, options, [0] * len(cases))
    total = num_requests(traces, cases)
    rows: dict[int, Row] = {}

    def call(place: int, pool: LivePool, marks: Marks) -> None:
        marking = _Marking(marks)
        rows[place] = run_case(task, place, pool.case, lambda: None, pool.recording, marking)

    for first in range(0, len(cases), MOST_IN_STEP):
        pools = [
            LivePool(case, traces[case.trace], BlockRecording(case.record))
            for case in cases[first : first + MOST_IN_STEP]
        ]
        calls = [partial(call, place, pool) for place, pool in enumerate(pools, first)]
        with closing(in_turns(calls)) as turns:
            for now_ps in turns:
                on_progress(sum(task.ended), total)
                watch(pools, now_ps)
    return [rows[place] for place in range(len(cases))]
