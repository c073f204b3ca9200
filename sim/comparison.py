"""One trace under several scenarios, in parallel processes; what came of each side by side.

Arrivals, lengths and seed are the same in every run, so differences come from the scenarios alone.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Final, TypedDict

from kvsim.sim.comparison_reference import differences_to_lru
from kvsim.sim.comparison_row import Row, row_of
from kvsim.sim.ctrl_c import ctrl_c_delayed
from kvsim.sim.engine_setup import set_up
from kvsim.sim.run import simulate
from kvsim.traces.prefix import shared_prefix_is_lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from fractions import Fraction

    from kvsim.sim.scenario import Scenario
    from kvsim.traces.trace import Trace

SCHEMA: Final = "kvsim.comparison/1"
_TASK: Final[list[tuple[Trace, _Options]]] = []  # what a worker process was started with


class _Options(TypedDict):
    """What else shapes all runs, as :func:`kvsim.sim.run.simulate` names it."""

    step: bool
    audit: bool
    seed: int
    rate_scale: Fraction | float | str
    assume_max_tokens: str
    closed: bool
    think_time: str | None
    num_users: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows in the order of the scenarios."""

    trace: str
    sha256: str
    num_requests: int
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, object]:
        """Document of ``--json`` and ``comparison.json`` (docs/compare.md)."""
        return {
            "schema": SCHEMA,
            "trace": {"name": self.trace, "sha256": self.sha256, "requests": self.num_requests},
            "rows": [row.to_json() for row in self.rows],
            "differences_to_lru": differences_to_lru(self.rows),
        }


def compare(
    trace: Trace,
    scenarios: Mapping[str, Scenario],
    *,
    jobs: int | None = None,
    step: bool = False,
    audit: bool = False,
    seed: int = 0,
    rate_scale: Fraction | float | str = 1,
    assume_max_tokens: str = "model",
    closed: bool = False,
    think_time: str | None = None,
    num_users: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Replay a trace under each scenario; ``jobs`` processes (default: one a CPU), 1 = this one.

    Other arguments are those of :func:`kvsim.sim.run.simulate`; ``on_progress`` is called with
    (runs finished, runs in all). Scripts that ask for more than one job need the usual
    ``if __name__ == "__main__"``.

    Raises
    ------
    ValueError
        As ``simulate``, after the name of the scenario.
    OSError
        Where a process was killed.
    KeyboardInterrupt
        On Ctrl-C, with all processes ended.
    """
    options: _Options = {
        "step": step,
        "audit": audit,
        "seed": seed,
        "rate_scale": rate_scale,
        "assume_max_tokens": assume_max_tokens,
        "closed": closed,
        "think_time": think_time,
        "num_users": num_users,
    }
    _check_block_sizes(trace, scenarios)
    jobs = min(jobs or os.cpu_count() or 1, len(scenarios))
    told = on_progress or (lambda _done, _total: None)
    run_all = _in_this_process if jobs <= 1 else _in_processes
    rows = run_all(trace, scenarios, options, jobs, told)
    return Comparison(trace.name, trace.sha256, len(trace), tuple(rows[name] for name in scenarios))


def _check_block_sizes(trace: Trace, scenarios: Mapping[str, Scenario]) -> None:
    """Refuse a sweep of block sizes that the trace's ids are too coarse to tell apart."""
    if trace.prefix is None:
        return
    configs = [set_up(scenario).config for scenario in scenarios.values()]
    caching = [config for config in configs if config.enable_prefix_caching]
    named = trace.prefix.block_size
    for index in ("hash", "radix"):
        sizes = sorted({config.block_size for config in caching if config.prefix == index})
        if len(sizes) > 1 and shared_prefix_is_lower_bound(named, sizes[0]):
            raise ValueError(
                f"block sizes {', '.join(map(str, sizes))} cannot be compared on {trace.name}: its "
                f"ids name {named} tokens, so below {named} a hit rate says nothing of the block "
                f"size; take multiples of {named}, or one size"
            )


def _in_this_process(
    trace: Trace,
    scenarios: Mapping[str, Scenario],
    options: _Options,
    _jobs: int,
    on_progress: Callable[[int, int], None],
) -> dict[str, Row]:
    rows = {}
    for name, scenario in scenarios.items():
        rows[name] = _row(trace, name, scenario, options)
        on_progress(len(rows), len(scenarios))
    return rows


def _in_processes(
    trace: Trace,
    scenarios: Mapping[str, Scenario],
    options: _Options,
    jobs: int,
    on_progress: Callable[[int, int], None],
) -> dict[str, Row]:
    """Run in new processes, each of which is handed the trace once; none outlives the call."""
    rows: dict[str, Row] = {}
    before = set(active_children())
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, (trace, options)) as pool:
        try:
            # new processes inherit the mask: Ctrl-C is for this one alone, once all have started
            with ctrl_c_delayed(), _ctrl_c_held_back():
                runs = [pool.submit(_task, name, scenario) for name, scenario in scenarios.items()]
            for run in as_completed(runs):
                row = run.result()
                rows[row.name] = row
                on_progress(len(rows), len(scenarios))
        except BrokenProcessPool:
            raise OSError(
                "a process that simulated was killed, perhaps for want of memory: give fewer --jobs"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - before:
                process.terminate()
            raise
    return rows


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


def _start(trace: Trace, options: _Options) -> None:
    _TASK.append((trace, options))


def _task(name: str, scenario: Scenario) -> Row:
    trace, options = _TASK[0]
    return _row(trace, name, scenario, options)


def _row(trace: Trace, name: str, scenario: Scenario, options: _Options) -> Row:
    try:
        run = simulate(trace, scenario, **options)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if run.engine.partial:
        raise KeyboardInterrupt
    return row_of(name, run)
