"""Comparisons of several scenarios on the same traces, in parallel processes.

Arrivals, lengths and seed are the same in each run of a trace, so that differences come only from
the scenarios.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kvsim.sim.comparison.cases import cases_of
from kvsim.sim.comparison.kept_runs import KeptRuns
from kvsim.sim.comparison.processes import run_in_processes
from kvsim.sim.comparison.reference import differences_to_lru
from kvsim.sim.comparison.row import row_numbers, stacked
from kvsim.sim.comparison.runs import run_here
from kvsim.sim.documents.comparison import ComparedTrace, ComparisonDocument
from kvsim.sim.run.options import RunOptions
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.common.arguments import (
    check_call,
    check_flags,
    check_kind,
    check_path,
    check_whole,
    wrong,
)
from kvsim.traces.common.text import counted
from kvsim.traces.trace.columns import check_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.comparison.pages.plots import ComparisonPlots
    from kvsim.sim.comparison.presets import Published
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.comparison.runs import Watch
    from kvsim.sim.run.options import Rate, SharedKeywords
    from kvsim.traces.trace.trace import Trace


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Rows in the order of the cases; ``notes`` concern all of them.

    ``kept`` holds :attr:`runs`. It is ``None`` with ``keep_runs=False`` and after a pickle.
    """

    traces: tuple[ComparedTrace, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    kept: KeptRuns | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Return one line; the generated form would print each row."""
        traces = ", ".join(trace.name for trace in self.traces)
        names = ", ".join(row.name for row in self.rows)
        return f"<Comparison of {counted(len(self.rows), 'run')} on {traces}: {names}>"

    def to_dict(self, published: Published | None = None) -> dict[str, Any]:
        """Return the document of ``--json`` and ``comparison.json`` (docs/compare.md)."""
        document = ComparisonDocument(
            traces=self.traces,
            rows=self.rows,
            differences_to_lru=differences_to_lru(self.rows),
            notes=self.notes,
            published=None if published is None else published.to_dict(),
        )
        return document.to_dict()

    @property
    def frame(self) -> pd.DataFrame:
        """Frame with a row for each run: metrics, verdict, and KV memory while requests waited."""
        import pandas as pd  # noqa: PLC0415 - only who asks for a frame pays for pandas

        return pd.DataFrame([row_numbers(row) for row in self.rows])

    @property
    def runs(self) -> KeptRuns:
        """Whole runs by the names of their rows: ``comparison.runs["paged"].plot.kv()``.

        Each access reads a run from a temporary folder. The folder is deleted with the comparison.

        Raises
        ------
        ValueError
            When the runs were not kept; on access, when a file is gone or the disk was full.
        """
        if self.kept is None:
            raise ValueError(
                "this comparison holds no runs: call compare with keep_runs=True (a pickle has "
                "none either)"
            )
        return self.kept

    @property
    def requests(self) -> pd.DataFrame:
        """Frame with a row for each request of each run: ``name``, then those of ``Run.requests``.

        The runs follow each other in the order of ``rows``; ``name`` is categorical. Errors are
        those of :attr:`runs`.
        """
        return stacked({name: run.requests for name, run in self.runs.items()})

    @property
    def series(self) -> pd.DataFrame:
        """Frame with a row for each window of each run: ``name``, then those of ``Run.series``.

        Windows of two runs can have different lengths. Errors are those of :attr:`runs`.
        """
        return stacked({name: run.series for name, run in self.runs.items()})

    @property
    def plot(self) -> ComparisonPlots:
        """Charts as plotly figures for notebooks.

        ``.memory()``, ``.users()``, ``.rates()``, ``.kv()`` and ``.queue()`` are charts of the
        page. ``.latency()`` has a panel for each run of :attr:`runs`.
        """
        from kvsim.sim.comparison.pages.plots import ComparisonPlots  # noqa: PLC0415

        return ComparisonPlots(self)

    def _repr_html_(self) -> str:
        from kvsim.sim.comparison.pages.notebook import comparison_html  # noqa: PLC0415

        return comparison_html(self)

    def save(self, folder: str | Path | None = None) -> Path:
        """Write ``comparison.json`` and ``report.html`` into a new folder, and return its path.

        See docs/compare.md. Without a name the folder is created in ``kvsim-runs``.

        Raises
        ------
        ValueError
            When the path exists already.
        OSError
            When the folder cannot be written; then it does not exist afterwards.
        """
        from kvsim.sim.comparison.file import write_comparison  # noqa: PLC0415
        from kvsim.sim.comparison.pages.page import comparison_page  # noqa: PLC0415
        from kvsim.sim.folders.place import result_folder  # noqa: PLC0415

        if folder is not None:
            check_path("folder", folder)
        place = None if folder is None else Path(folder)
        with result_folder(place, self.traces[0].name) as new, new.filled() as draft:
            write_comparison(self.to_dict(), comparison_page(self), draft)
        return new.path


def compare(
    trace: Trace | Sequence[Trace],
    scenarios: Mapping[str, Scenario],
    *,
    notes: Sequence[str] = (),
    jobs: int | None = None,
    rate_scale: Rate | Sequence[Rate] = 1,
    on_progress: Callable[[int, int], None] | None = None,
    record: RecordOptions | None = None,
    blocks: Path | None = None,
    watch: Watch | None = None,
    keep_runs: bool = True,
    **options: Unpack[SharedKeywords],
) -> Comparison:
    """Replay each trace under each scenario in ``jobs`` processes (default: one for each CPU).

    ``jobs=1`` runs all in this process. ``options`` are those of
    :func:`kvsim.sim.run.run.simulate`, but ``rate_scale`` may be a list. ``on_progress`` is called
    with the number of requests that ended in all runs, and with the number of all requests. The
    name of a row is the scenario, then the trace and the rate if there are several.

    ``record`` says how the pools are recorded; the block map of each row is written to the folder
    ``blocks``. With both, ``watch`` may be called after each scheduling call, with the pool of the
    row that runs and its time; then all rows run in this process. With ``keep_runs=False`` nothing
    is written for :attr:`Comparison.runs`, and the traces are not held. A script with more than one
    job needs the usual ``if __name__ == "__main__"``.

    Raises
    ------
    ValueError
        As ``simulate``, after the name of the row.
    OSError
        When a process was killed, or the temporary folder of the runs cannot be created.
    KeyboardInterrupt
        On Ctrl-C, after all processes ended.
    """
    if jobs is not None:
        check_whole("jobs", jobs, 1, ", or None: one a CPU")
    traces = tuple(trace) if isinstance(trace, (list, tuple)) else (trace,)
    _check_compared(traces, scenarios, notes)
    shared = RunOptions.of(options)
    _check_watched(on_progress, record, blocks, watch)
    check_flags(keep_runs=keep_runs)
    rates = tuple(rate_scale) if isinstance(rate_scale, (list, tuple)) else (rate_scale,)
    cases = cases_of(scenarios, traces, rates, record=record, blocks=blocks)
    jobs = min(jobs or os.cpu_count() or 1, len(cases))
    told = on_progress or (lambda _done, _total: None)
    runs = KeptRuns(traces, cases) if keep_runs else None
    cases = cases if runs is None else runs.cases
    try:
        if jobs <= 1 or (watch is not None and record is not None):
            rows = run_here(traces, cases, shared, told, watch)
        else:
            rows = run_in_processes(traces, cases, shared, jobs, told)
    except BaseException:
        if runs is not None:
            runs.take_away()
        raise
    compared = tuple(
        ComparedTrace(name=one.name, sha256=one.sha256, requests=len(one)) for one in traces
    )
    return Comparison(compared, tuple(rows), tuple(notes), runs)


def _check_compared(traces: Iterable[object], scenarios: object, notes: object) -> None:
    """Raise ``ValueError`` when the arguments cannot be compared."""
    for trace in traces:
        check_trace(trace)
    what = "scenarios by name, such as {'mine': Scenario.load('vllm-0.32')}"
    if not isinstance(scenarios, Mapping):
        raise wrong("scenarios", scenarios, what)
    for name, scenario in scenarios.items():
        check_kind("a name of scenarios", name, str, "text")
        check_kind(f"scenarios[{name!r}]", scenario, Scenario, "a Scenario")
    check_kind("notes", notes, list | tuple, "a list of texts")
    for note in _members(notes):
        check_kind("notes", note, str, "a list of texts")


def _check_watched(on_progress: object, record: object, blocks: object, watch: object) -> None:
    """Raise ``ValueError`` when an argument cannot be called, recorded or watched."""
    from kvsim.sim.block_map import RecordOptions  # noqa: PLC0415 - only who records pays for it

    check_call("on_progress", on_progress, "(requests ended, requests in all)")
    check_kind("record", record, RecordOptions | None, "RecordOptions, or None")
    check_kind("blocks", blocks, Path | None, "the Path of a folder, or None")
    check_call("watch", watch, "(live pool, ps)")


def _members(values: object) -> Iterable[object]:
    assert isinstance(values, list | tuple), "checked before"
    return values
