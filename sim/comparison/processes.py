"""Runs of a comparison in parallel processes, none of which outlives it.

What all processes need lies in a file: what is written into the pipe of a starting process whose
script ends it at once would wait for a reader for ever, if there is more than the pipe holds.
"""

from __future__ import annotations

import os
import pickle
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import (
    active_children,
    connection,
    current_process,
    get_context,
    parent_process,
)
from pathlib import Path
from tempfile import gettempdir
from threading import Thread
from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.runs import Task, num_requests, run_case
from kvsim.traces.common.ctrl_c import ctrl_c_delayed
from kvsim.traces.common.files import OwnFolder

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence
    from multiprocessing.process import BaseProcess

    from kvsim.sim.comparison.row import Row
    from kvsim.sim.comparison.runs import Case, OnProgress
    from kvsim.sim.run.options import RunOptions
    from kvsim.traces.trace.trace import Trace

_POLL_S: Final = 0.2
_PATIENCE_S: Final = 2.0
_UNGUARDED: Final = 78  # how a process ends that got here while it was importing the script
_TASK: Final[list[Task]] = []  # what a worker process was started with


def run_in_processes(
    traces: Sequence[Trace],
    cases: Sequence[Case],
    options: RunOptions,
    jobs: int,
    on_progress: OnProgress,
) -> list[Row]:
    """Run in new processes, each of which is handed the traces once; none outlives the call.

    Raises
    ------
    ValueError
        As ``simulate``, after the name of the case; where a script starts processes unguarded.
    OSError
        Where a process was killed, or the temporary folder has no room for the traces.
    KeyboardInterrupt
        On Ctrl-C, with all processes ended.
    """
    if getattr(current_process(), "_inheriting", False):  # as multiprocessing itself asks
        os._exit(_UNGUARDED)
    folder = OwnFolder(Path(gettempdir()))
    try:
        return _run_all(_shared(folder, traces, options), traces, cases, jobs, on_progress)
    finally:
        folder.remove()


def _shared(folder: OwnFolder, traces: Sequence[Trace], options: RunOptions) -> Path:
    """File of what all processes need."""
    file = folder.path / "0.pickle"
    try:
        with file.open("wb") as open_file:
            pickle.dump((traces, options), open_file, pickle.HIGHEST_PROTOCOL)
    except OSError as error:
        raise OSError(
            f"{folder.path} has no room for the traces ({error.strerror}): set TMPDIR to a folder "
            "with room, or give one of --jobs"
        ) from None
    return file


def _run_all(
    shared: Path,
    traces: Sequence[Trace],
    cases: Sequence[Case],
    jobs: int,
    on_progress: OnProgress,
) -> list[Row]:
    context, total = get_context("spawn"), num_requests(traces, cases)
    ended: MutableSequence[int] = context.Array("q", len(cases), lock=False)
    rows: dict[int, Row] = {}
    before = set(active_children())
    with ProcessPoolExecutor(jobs, context, _start, (shared, ended)) as pool:
        try:
            with ctrl_c_delayed():  # it is for this process alone, once all have started
                runs = _submitted(pool, cases)
            pending = set(runs)
            while pending:
                with ctrl_c_delayed():  # it could leave a lock of the futures taken
                    done, pending = wait(pending, _POLL_S, FIRST_COMPLETED)
                rows |= {runs[run]: run.result() for run in sorted(done, key=runs.__getitem__)}
                on_progress(sum(ended), total)
        except BaseException as error:
            started = tuple((pool._processes or {}).values())
            # all by hand: the pool forgets a process that was starting when another one died
            with ctrl_c_delayed():
                pool.shutdown(wait=False, cancel_futures=True)
                for process in set(active_children()) - before:
                    process.terminate()
            if isinstance(error, BrokenProcessPool):
                if _any_unguarded(started):
                    raise ValueError(
                        "each process imports the script anew, which compares again: put what it "
                        "does under if __name__ == '__main__':, or give jobs=1"
                    ) from None
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


def _any_unguarded(processes: Sequence[BaseProcess]) -> bool:
    """Whether one ended while it was importing the script; how it ended is told a bit later."""
    until_s = time.monotonic() + _PATIENCE_S
    while any(one.exitcode is None for one in processes) and time.monotonic() < until_s:
        time.sleep(_POLL_S / 10)
    return any(one.exitcode == _UNGUARDED for one in processes)


def _start(shared: Path, ended: MutableSequence[int]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    with shared.open("rb") as file:
        traces, options = pickle.load(file)
    _TASK.append(Task(traces, options, ended))


def _end_with_parent() -> None:
    """Leave no process behind where the parent was killed: it would wait for work for ever."""
    parent = parent_process()
    assert parent is not None, "a worker has a parent"
    connection.wait([parent.sentinel])
    os._exit(1)


def _run(place: int, case: Case) -> Row:
    return run_case(_TASK[0], place, case, lambda: None)
