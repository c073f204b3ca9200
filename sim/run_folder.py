"""A run on disk: ``manifest.json``, ``summary.json``, two parquet files and ``report.html``.

The same trace, scenario and seed give the same bytes: no times of day, sorted keys, fixed ids.
All files are written under temporary names and renamed at the end, the manifest last, so a folder
with a manifest holds a whole run.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.report import report_html
from kvsim.sim.run_tables import request_table, series_table
from kvsim.sim.scenario_loader import scenario_to_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from kvsim.sim.run import Run

MANIFEST: Final = "manifest.json"
SCHEMA: Final = "kvsim.manifest/1"
ROWS_PER_SLICE: Final = 16_384
_PACKAGES: Final = ("kvsim", "numpy", "pyarrow", "plotly", "simpy")


def _draft(name: str) -> str:
    return f".{name}.part"


_FILES: Final = ("requests.parquet", "series.parquet", "summary.json", "report.html", MANIFEST)
_DRAFTS: Final = frozenset(map(_draft, _FILES))
"""What a run that was killed while it wrote may leave behind."""


def check_run_folder(folder: Path) -> None:
    """Refuse a place that exists and is neither an empty folder nor an earlier run.

    Raises
    ------
    ValueError
        With the folder's name and the remedy.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; --out needs a folder")
    strange = any(path.name not in _DRAFTS for path in folder.iterdir())
    if strange and not _is_run(folder):
        raise ValueError(
            f"{folder} exists and is not a run of kvsim; choose another folder or empty it"
        )


def write_run(run: Run, folder: Path) -> None:
    """Write a run into a new folder, or over an earlier run.

    Raises
    ------
    ValueError
        As :func:`check_run_folder`.
    OSError
        Where the files cannot be written; files of an earlier run then stay whole.
    """
    check_run_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[Path], object]] = {
        "requests.parquet": lambda path: _write_requests(run, path),
        "series.parquet": lambda path: _write_series(run, path),
        "summary.json": lambda path: path.write_text(to_json(run.summary), encoding="utf-8"),
        "report.html": lambda path: _write_report(run, path),
        MANIFEST: lambda path: path.write_text(to_json(manifest(run)), encoding="utf-8"),
    }
    drafts = {name: folder / _draft(name) for name in writers}
    try:
        for name, write in writers.items():
            write(drafts[name])
        for name, draft in drafts.items():
            draft.replace(folder / name)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def manifest(run: Run) -> dict[str, object]:
    """Everything needed to make the run again, and what it stood on."""
    return {
        "schema": SCHEMA,
        "scenario": scenario_to_dict(run.scenario),
        "trace": {
            "name": run.trace.name,
            "sha256": run.trace.sha256,
            "requests": len(run.trace),
        },
        "options": run.options,
        "seed": run.seed,
        "versions": {name: version(name) for name in _PACKAGES},
        "scheduler_config": asdict(run.setup.config),
        "pool": asdict(run.setup.pool),
        "pool_terms": [asdict(term) for term in run.setup.pool_terms],
        "cost_source": run.setup.cost.name,
        "engine": {"name": run.engine.engine, "reason": run.engine.reason},
        "audit": {"asked": bool(run.options.get("audit")), "events": run.engine.audited},
        "partial": run.engine.partial,
    }


def to_json(document: object) -> str:
    """JSON text with sorted keys; nan is a fault, never a number."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _is_run(folder: Path) -> bool:
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def _write_requests(run: Run, path: Path) -> None:
    """Write the request table slice by slice, so that memory does not grow with the trace."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - only a saved run needs pyarrow

    writer = None
    try:
        for start in range(0, max(len(run.trace), 1), ROWS_PER_SLICE):
            stop = min(start + ROWS_PER_SLICE, len(run.trace))
            table = _arrow(request_table(run.trace, run.engine.recorder, start, stop))
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_series(run: Run, path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - only a saved run needs pyarrow

    table = _arrow(series_table(run.engine.recorder, run.setup.pool))
    pq.write_table(table, path, compression="zstd")


def _write_report(run: Run, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(report_html(run))


def _arrow(
    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int64] | Sequence[str]],
) -> pa.Table:
    """Arrow table of columns; nan becomes null."""
    import pyarrow as pa  # noqa: PLC0415 - only a saved run needs pyarrow

    arrays = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            arrays[name] = pa.array(values, from_pandas=True)
        else:
            arrays[name] = pa.array(values, type=pa.string())
    return pa.table(arrays)
