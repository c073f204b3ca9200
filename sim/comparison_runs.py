"""Runs of a comparison, in this process or in parallel ones; a row comes back of each."""

from __future__ import annotations

import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from kvsim.sim.block_map import BlockRecording, PoolFacts
from kvsim.sim.comparison_kept import keep
from kvsim.sim.comparison_row import Row, row_of
from kvsim.sim.ctrl_c import ctrl_c_delayed
from kvsim.sim.run import simulate
from kvsim.sim.schedule_listener import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, MutableSequence, Sequence
    from pathlib import Path

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.scenario import Scenario
    from kvsim.sim.schedule_listener import ScheduleListener
    from kvsim.traces.trace import Trace

    OnProgress = Callable[[int, int], None]

_POLL_S: Final = 0.2
_TASK: Final[list[Task]] = []  # what a worker process was started with


class Case(NamedTuple):
    """One run: ``name`` is that of its row, ``trace`` the place of its trace among all.

    ``record``: how its pool is recorded, ``blocks``: the file that this goes to; ``kept``: the file
    that the whole run goes to, for :class:`~kvsim.sim.comparison_kept.KeptRuns`.
    """

    name: str
    scenario: Scenario
    trace: int = 0
    rate_scale: str = "1"
    record: RecordOptions | None = None
    blocks: Path | None = None
    kept: Path | None = None


class Options(TypedDict):
    """What else shapes all runs, as :func:`kvsim.sim.run.simulate` names it."""

    step: bool
    audit: bool
    seed: int
    assume_max_tokens: str
    closed: bool
    think_time: str | None
    num_users: int | None
    timeout: str | None


class Task(NamedTuple):
    """What all runs of a process share; ``ended`` counts ended requests, one entry a case."""

    traces: Sequence[Trace]
    options: Options
    ended: MutableSequence[int]


def run_here(
    traces: Sequence[Trace],
    cases: Sequence[Case],
    options: Options,
    on_progress: OnProgress,
) -> list[Row]:
    """Rows of the cases, one after the other; errors as :func:`run_in_processes`."""
    task = Task(traces, options, [0] * len(cases))
    total = num_requests(traces, cases)
    return [
        run_case(task, place, case, lambda: on_progress(sum(task.ended), total))
        for place, case in enumerate(cases)
    ]


def run_in_processes(
    traces: Sequence[Trace],
    cases: Sequence[Case],
    options: Options,
    jobs: int,
    on_progress: OnProgress,
) -> list[Row]:
    """Run in new processes, each of which is handed the traces once; none outlives the call.

    Raises
    ------
    ValueError
        As ``simulate``, after the name of the case.
    OSError
        Where a process was killed.
    KeyboardInterrupt
        On Ctrl-C, with all processes ended.
    """
    context, total = get_context("spawn"), num_requests(traces, cases)
    ended: MutableSequence[int] = context.Array("q", len(cases), lock=False)
    rows: dict[int, Row] = {}
    before = set(active_children())
    task = (traces, options, ended)
    with ProcessPoolExecutor(jobs, context, _start, task) as pool:
        try:
            # new processes inherit the mask: Ctrl-C is for this one alone, once all have started
            with ctrl_c_delayed(), _ctrl_c_held_back():
                runs = _submitted(pool, cases)
            pending = set(runs)
            while pending:
                with ctrl_c_delayed():  # it could leave a lock of the futures taken
                    done, pending = wait(pending, _POLL_S, FIRST_COMPLETED)
                rows |= {runs[run]: run.result() for run in sorted(done, key=runs.__getitem__)}
                on_progress(sum(ended), total)
        except BaseException as error:
            # all by hand: the pool forgets a process that was starting when another one died
            with ctrl_c_delayed():
                pool.shutdown(wait=False, cancel_futures=True)
                for process in set(active_children()) - before:
                    process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise OSError(
                    "a process that simulated was killed, perhaps for want of memory: give fewer "
                    "--jobs"
                ) from None
            raise
    return [rows[place] for place in range(len(cases))]


def _submitted(pool: ProcessPoolExecutor, cases: Sequence[Case]) -> dict[Future[Row], int]:
    """Places of the cases by their futures; starts the processes.

    Where one dies while the next is started, the pool may close the pipes that this one is handed.
    """
    try:
        return {pool.submit(_run, place, case): place for place, case in enumerate(cases)}
    except ValueError as error:
        raise BrokenProcessPool(str(error)) from error


def num_requests(traces: Sequence[Trace], cases: Sequence[Case]) -> int:
    """Requests of all runs together."""
    return sum(len(traces[case.trace]) for case in cases)


@contextmanager
def _ctrl_c_held_back() -> Generator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(traces: Sequence[Trace], options: Options, ended: MutableSequence[int]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    _TASK.append(Task(traces, options, ended))


def _end_with_parent() -> None:
    """Leave no process behind where the parent was killed: it would wait for work for ever."""
    parent = parent_process()
    assert parent is not None, "a worker has a parent"
    connection.wait([parent.sentinel])
    os._exit(1)


def _run(place: int, case: Case) -> Row:
    return run_case(_TASK[0], place, case, lambda: None)


def run_case(
    task: Task,
    place: int,
    case: Case,
    told: Callable[[], None],
    recording: BlockRecording | None = None,
    beside: ScheduleListener | None = None,
) -> Row:
    """Simulate the case at ``place``; ``recording``, that of its pool, has ``beside`` beside it."""

    def note(num_ended: int, _total: int) -> None:
        task.ended[place] = num_ended
        told()

    trace = task.traces[case.trace]
    if recording is None and case.record is not None:
        recording = BlockRecording(case.record)
    listener: ScheduleListener | None = recording
    if recording is not None and beside is not None:
        listener = Listeners((recording, beside))
    try:
        run = simulate(
            trace,
            case.scenario,
            rate_scale=case.rate_scale,
            on_progress=note,
            listener=listener,
            **task.options,
        )
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
