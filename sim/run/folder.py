"""A run on disk: ``manifest.json``, ``summary.json``, two parquet files and ``report.html``.

The same trace, scenario and seed give the same bytes: no times of day, sorted keys, fixed ids.
All files are written under temporary names. Then the manifest of an earlier run goes first and the
new one comes last, so a folder with a manifest holds a whole run, of one simulation.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.sim.folders.place import (
    ASKED_FOR,
    BLOCKS,
    MANIFEST,
    SCHEMA,
    check_run_folder,
    draft_name,
    naming_folder,
)
from kvsim.sim.metrics.tables import request_table, series_table
from kvsim.sim.report.run_page import run_page
from kvsim.sim.scenario.loader import scenario_to_dict
from kvsim.traces.common.ctrl_c import ctrl_c_delayed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.run.run import Run

ROWS_PER_SLICE: Final = 16_384
REQUESTS: Final = "requests.parquet"
_UNTOLD: Final = {"num_kv_heads", "swap_layout", "swap_overlap", "swap_space_bytes"}
"""Options that are no rules of the scheduler: they are in the scenario."""
_NAMED_FIRST: Final = {"eviction", "predictor", "queue", "retention"}
_FLAT_NAMES: Final = {
    "queue.policy": "policy",
    "preemption.mode": "preemption_mode",
    "predictor.bucket_error_rate": "predictor_bucket_error",
    "retention.prefix_cache_retention_interval": "prefix_cache_retention_interval",
}
_PACKAGES: Final = ("kvsim", "numpy", "pyarrow", "plotly", "simpy")


def write_run(run: Run, folder: Path) -> None:
    """Write a run into a new folder, or over an earlier run.

    Raises
    ------
    ValueError
        As :func:`check_run_folder`.
    OSError
        Where the files cannot be written; it names the folder. Unless the fault comes while the
        new files are renamed, an earlier run stays whole.
    """
    check_run_folder(folder)
    writers: dict[str, Callable[[Path], object]] = {
        REQUESTS: lambda path: _write_requests(run, path),
        "series.parquet": lambda path: _write_series(run, path),
        "summary.json": lambda path: path.write_text(to_json(run.summary), encoding="utf-8"),
        "report.html": lambda path: _write_report(run, path),
    }
    if run.block_map is not None:
        writers[BLOCKS] = run.block_map.save
    writers[MANIFEST] = lambda path: path.write_text(to_json(manifest(run)), encoding="utf-8")
    drafts = {name: folder / draft_name(name) for name in writers}
    with ctrl_c_delayed(), naming_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for name, write in writers.items():
                write(drafts[name])
            for name in (MANIFEST, *ASKED_FOR):  # none of an earlier run stays
                (folder / name).unlink(missing_ok=True)
            for name, draft in drafts.items():
                draft.replace(folder / name)
        finally:  # of a killed run that recorded blocks, too, where this one does not
            for draft in {*drafts.values(), folder / draft_name(BLOCKS)}:
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
            "source": run.source,
        },
        "options": run.options.to_dict(),
        "seed": run.options.seed,
        "versions": {name: version(name) for name in _PACKAGES},
        "scheduler_config": _rules(run.setup.config),
        "pool": asdict(run.setup.pool),
        "pool_terms": [asdict(term) for term in run.setup.pool_terms],
        "cost_source": run.setup.cost.name,
        "engine": {"name": run.engine.engine, "reason": run.engine.reason},
        "audit": {"asked": run.options.audit, "events": run.engine.audited},
        "partial": run.engine.partial,
    }


def _rules(config: SchedulerConfig) -> dict[str, object]:
    """The engine's rules as they were settled, tables and sizes in one flat object."""
    rules: dict[str, object] = {}
    for name, value in asdict(config).items():
        if name in config.tables():
            rules |= {_flat_name(name, option): value[option] for option in value}
        else:
            rules[name] = value
    budget, recent = (1, 1) if config.keeps_everything else config.retention.budget_and_recent()
    rules |= {
        "prefix": config.allocator.index,
        "retention_budget": budget,
        "retention_recent": recent,
        "retention_heads": config.retention_heads,
    }
    if config.eviction.capacity == math.inf:  # JSON has no infinity
        rules["eviction_capacity"] = "inf"
    return {name: value for name, value in rules.items() if name not in _UNTOLD}


def _flat_name(table: str, option: str) -> str:
    """Name of a table's option where all stand side by side."""
    path = f"{table}.{option}"
    if path in _FLAT_NAMES:
        return _FLAT_NAMES[path]
    if option in {"kind", "policy"}:
        return table
    return f"{table}_{option}" if table in _NAMED_FIRST else option


def read_manifest(folder: Path) -> dict[str, Any]:
    """Manifest of a run folder.

    Raises
    ------
    ValueError
        Where the folder holds no whole run of this version's schema.
    """
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{folder} is not a run of kvsim: it has no {MANIFEST}; kvsim simulate writes one"
        ) from None
    except (NotADirectoryError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not the manifest of a run: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"{path} is not a manifest of schema {SCHEMA}: simulate the run again")
    if not (folder / REQUESTS).is_file():
        raise ValueError(
            f"{folder} is not a whole run of kvsim: it has no {REQUESTS}; simulate the run again"
        )
    return document


def to_json(document: object) -> str:
    """JSON text with sorted keys; nan is a fault, never a number."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _write_requests(run: Run, path: Path) -> None:
    """Write the request table slice by slice, so that memory does not grow with the trace."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - only a saved run needs pyarrow

    writer = None
    with path.open("wb") as file:  # pyarrow opens no file whose name is no text
        try:
            for start in range(0, max(len(run.trace), 1), ROWS_PER_SLICE):
                stop = min(start + ROWS_PER_SLICE, len(run.trace))
                table = _arrow(request_table(run.trace, run.engine.recorder, start, stop))
                writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _write_series(run: Run, path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - only a saved run needs pyarrow

    table = _arrow(series_table(run.engine.recorder, run.setup.pool))
    with path.open("wb") as file:  # as above
        pq.write_table(table, file, compression="zstd")


def _write_report(run: Run, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(run_page(run))


def _arrow(
    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int64] | Sequence[str]],
) -> pa.Table:
    """Arrow table of columns; nan becomes null."""
    import pyarrow as pa  # noqa: PLC0415 - only a saved run needs pyarrow

    return pa.table(
        {
            name: pa.array(values, from_pandas=True)
            if isinstance(values, np.ndarray)
            else pa.array(values, type=pa.string())
            for name, values in columns.items()
        }
    )
