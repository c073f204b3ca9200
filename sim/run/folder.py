"""A run on disk: ``manifest.json``, ``summary.json``, two parquet files and ``report.html``.

The same trace, scenario and seed give the same bytes: no times of day, sorted keys, fixed ids.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.documents.manifest import (
    Audit,
    EngineName,
    Manifest,
    ManifestPool,
    ManifestTrace,
    PoolTerm,
    Versions,
)
from kvsim.sim.documents.reading import read_part
from kvsim.sim.folders.place import BLOCKS, MANIFEST, REPORT, REQUESTS, SERIES, SUMMARY
from kvsim.sim.metrics.tables import request_table, series_table
from kvsim.sim.report.run_page import run_page
from kvsim.sim.scenario.loader import scenario_to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.run.run import Run
    from kvsim.traces.common.part import Document

ROWS_PER_SLICE: Final = 16_384
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
    """Write the files of a run into a folder that comes to its place afterwards."""
    _write_requests(run, folder / REQUESTS)
    _write_series(run, folder / SERIES)
    _write_document(run.summary, folder / SUMMARY)
    _write_report(run, folder / REPORT)
    if run.block_map is not None:
        run.block_map.save(folder / BLOCKS)
    _write_document(manifest(run), folder / MANIFEST)


def manifest(run: Run) -> Manifest:
    """Everything needed to make the run again, and what it stood on."""
    pool, engine = run.setup.pool, run.engine
    return Manifest(
        scenario=scenario_to_dict(run.scenario),
        trace=ManifestTrace(
            name=run.trace.name,
            sha256=run.trace.sha256,
            requests=len(run.trace),
            source=run.source,
        ),
        options=run.options.to_dict(),
        seed=run.options.seed,
        versions=Versions(**{name: version(name) for name in _PACKAGES}),
        scheduler_config=_rules(run.setup.config),
        pool=ManifestPool(
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            num_null_blocks=pool.num_null_blocks,
            block_bytes=pool.block_bytes,
            remainder_bytes=pool.remainder_bytes,
            scores_per_token=pool.scores_per_token,
        ),
        pool_terms=[
            PoolTerm(
                name=term.name,
                formula=term.formula,
                num_bytes=term.num_bytes,
                assumed=term.assumed,
            )
            for term in run.setup.pool_terms
        ],
        cost_source=run.setup.cost.name,
        engine=EngineName(name=engine.engine, reason=engine.reason),
        audit=Audit(asked=run.options.audit, events=engine.audited),
        partial=engine.partial,
    )


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


def read_manifest(folder: Path) -> Manifest:
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
    except RecursionError:
        raise ValueError(f"{path} is not the manifest of a run: it is nested too deeply") from None
    except (NotADirectoryError, ValueError) as error:
        raise ValueError(f"{path} is not the manifest of a run: {error}") from None
    schema = Manifest.schema
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"{path} is not a manifest of schema {schema}: simulate the run again")
    try:
        found = read_part(Manifest, document)
    except ValueError as error:
        raise ValueError(f"{path} is not the manifest of a run: {error}") from None
    if not (folder / REQUESTS).is_file():
        raise ValueError(
            f"{folder} is not a whole run of kvsim: it has no {REQUESTS}; simulate the run again"
        )
    return found


def to_json(document: object) -> str:
    """JSON text with sorted keys; nan is a fault, never a number."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _write_document(document: Document, path: Path) -> None:
    path.write_text(to_json(document.to_dict()), encoding="utf-8")


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
