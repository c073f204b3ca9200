"""Runs of a comparison; a row comes back of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.block_map import BlockRecording, PoolFacts
from kvsim.sim.comparison.kept_runs import keep
from kvsim.sim.comparison.row import Row, row_of
from kvsim.sim.engine.listener import Listeners, ScheduleListener
from kvsim.sim.run.drive import Watchers
from kvsim.sim.run.run import simulate_as

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence, Sequence
    from pathlib import Path

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.run.options import RunOptions
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

    OnProgress = Callable[[int, int], None]
    Watch = Callable[["LivePool", int], None]


class Case(NamedTuple):
    """One run: ``name`` is that of its row, ``trace`` the place of its trace among all.

    ``record``: how its pool is recorded, ``blocks``: the file that this goes to; ``kept``: the file
    that the whole run goes to, for :class:`~kvsim.sim.comparison.kept_runs.KeptRuns`.
    """

    name: str
    scenario: Scenario
    trace: int = 0
    rate_scale: str = "1"
    record: RecordOptions | None = None
    blocks: Path | None = None
    kept: Path | None = None


class LivePool(NamedTuple):
    """A run in progress, the one at ``place`` of ``num_runs``, and what it has recorded by now."""

    place: int
    num_runs: int
    case: Case
    trace: Trace
    recording: BlockRecording


class _Watched(ScheduleListener):
    """Shows a pool after each scheduling call."""

    def __init__(self, pool: LivePool, watch: Watch) -> None:
        self._pool = pool
        self._watch = watch

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """The call's picture has been taken."""
        self._watch(self._pool, now_ps)


class Task(NamedTuple):
    """What all runs of a process share; ``ended`` counts ended requests, one entry a case."""

    traces: Sequence[Trace]
    options: RunOptions
    ended: MutableSequence[int]


def run_here(
    traces: Sequence[Trace],
    cases: Sequence[Case],
    options: RunOptions,
    on_progress: OnProgress,
    watch: Watch | None = None,
) -> list[Row]:
    """Rows of the cases, one after the other; errors as ``simulate``, after a case's name.

    ``watch`` is called with the pool of the case that runs, where it is recorded, and the time it
    has come to (ps), after every scheduling call.
    """
    task = Task(traces, options, [0] * len(cases))
    total = num_requests(traces, cases)
    return [
        run_case(task, place, case, lambda: on_progress(sum(task.ended), total), watch)
        for place, case in enumerate(cases)
    ]


def num_requests(traces: Sequence[Trace], cases: Sequence[Case]) -> int:
    """Requests of all runs together."""
    return sum(len(traces[case.trace]) for case in cases)


def run_case(
    task: Task,
    place: int,
    case: Case,
    told: Callable[[], None],
    watch: Watch | None = None,
) -> Row:
    """Simulate the case at ``place``."""

    def note(num_ended: int, _total: int) -> None:
        task.ended[place] = num_ended
        told()

    trace = task.traces[case.trace]
    recording = None if case.record is None else BlockRecording(case.record)
    listener: ScheduleListener | None = recording
    if recording is not None and watch is not None:
        pool = LivePool(place, len(task.ended), case, trace, recording)
        listener = Listeners((recording, _Watched(pool, watch)))
    try:
        options = replace(task.options, rate_scale=case.rate_scale)
        run = simulate_as(trace, case.scenario, options, Watchers(note, listener))
    except ValueError as error:
        raise ValueError(f"{case.name}: {error}") from None
    if run.engine.partial:
        raise KeyboardInterrupt
    if recording is not None and case.blocks is not None:
        facts = PoolFacts.of(run, case.name, recording.options.most_cells)
        recording.block_map(facts).save(case.blocks)
    if case.kept is not None:
        keep(run, trace, case.kept)
    note(len(trace), len(trace))
    return row_of(case.name, run)
