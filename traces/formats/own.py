"""kvsim's own format in its three containers: CSV, JSON lines, parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.adjust.session_ids import separate_sessions
from kvsim.traces.common.names import near_names, unknown
from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.cells import (
    INT64_MAX,
    INT64_MIN,
    codes,
    id_lists,
    texts,
    whole_numbers,
)
from kvsim.traces.reading.checks import optional_ids
from kvsim.traces.reading.intake import DEFAULTS, IdForm
from kvsim.traces.reading.tables import CsvTable, JsonLines, parse_json
from kvsim.traces.trace.own_format import ENDS_BY, METADATA_KEY, OPTIONAL, REQUIRED, TEXTS, Metadata
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "max_tokens": (1, 2**31 - 1),
    "priority": (INT64_MIN, INT64_MAX),
    "turn": (0, INT64_MAX),
    "after_request": (0, INT64_MAX),
    "delay_ns": (0, INT64_MAX),
    "timeout_ns": (-1, INT64_MAX),
    "num_samples": (1, 2**31 - 1),
    "beam_width": (1, 2**31 - 1),
    "has_time": (0, 1),
}
"""What optional numbers may be, beside the default that stands for "not said"."""


class OwnCsvReader:
    """Reader of the CSV container."""

    name = "kvsim-csv"
    title = "kvsim's own trace format (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the required columns."""
        return head.csv_fields.issuperset(REQUIRED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; unknown columns are refused."""
        table = CsvTable(source)
        table.need(REQUIRED)
        metadata = Metadata()
        if table.metadata is not None:
            try:
                value = parse_json(table.metadata)
            except ValueError as error:
                raise TraceError(f"{source.path}: line 1: metadata is not JSON: {error}") from error
            metadata = Metadata.from_json(source.path, value)
        refuse_unknown(source.path, table.header)
        for batch in table.batches(intake):
            add(batch, intake, metadata)
        return finish(intake, metadata)


class OwnJsonLinesReader:
    """Reader of the JSON lines container."""

    name = "kvsim-jsonl"
    title = "kvsim's own trace format (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the metadata line, or by the required keys in the first line."""
        return METADATA_KEY in head.json_keys or head.json_keys.issuperset(REQUIRED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; unknown keys are refused."""
        lines = JsonLines(source)
        metadata = Metadata()
        first = lines.first()
        if isinstance(first, dict) and METADATA_KEY in first:
            metadata = Metadata.from_json(source.path, first[METADATA_KEY])
            lines.drop_first()
        for batch in lines.batches(intake, REQUIRED, OPTIONAL):
            refuse_unknown(source.path, lines.other_keys)
            add(batch, intake, metadata)
        return finish(intake, metadata)


def add(batch: Batch, intake: Intake, metadata: Metadata) -> None:
    """Check a batch whose columns are named as in the format, and hand it on."""
    columns: dict[str, NDArray[Any]] = {
        "arrival_ns": whole_numbers(batch, "arrival_ns", low=0, high=INT64_MAX),
        "prompt_tokens": whole_numbers(batch, "prompt_tokens"),
        "output_tokens": intake.output_tokens(batch, "output_tokens"),
    }
    for name, (low, high) in _RANGES.items():
        if name in batch.columns:
            default = int(DEFAULTS[name])
            columns[name] = whole_numbers(batch, name, low=low, high=high, default=default)
    if "id" in batch.columns:
        columns["ids"] = texts(batch, "id")
    columns |= {name: texts(batch, name) for name in TEXTS if name in batch.columns}
    if "ends_by" in batch.columns:
        columns["ends_by"] = codes(batch, "ends_by", ENDS_BY)
    if "max_tokens" in columns:
        _check_max_tokens(batch, columns["max_tokens"], columns["output_tokens"])
    if "has_time" in columns:
        _check_has_time(batch, columns)
    ids = _ids(batch, columns, intake.source.path, metadata)
    also_after = _also_after(batch, columns) if "also_after" in batch.columns else None
    intake.add(batch, columns, ids, also_after)


def finish(intake: Intake, metadata: Metadata) -> Trace:
    """Put the trace together; ids of session scope are made distinct."""
    form = None
    if metadata.id_block_tokens is not None:
        form = IdForm(metadata.id_block_tokens, metadata.ids_cover_output, metadata.id_scope)
    trace = intake.trace(
        time_unit="ns",
        time_column="arrival_ns",
        keep_zero=metadata.keep_zero,
        id_form=form,
        name=metadata.name,
    )
    if form is not None and form.scope == "session":
        if trace.session is None:
            raise TraceError(f"{intake.source.path}: id_scope is 'session', but no row has one")
        separate_sessions(trace)
    return trace


def misspelt(names: Iterable[str]) -> str:
    """Say which needed column of the format a file seems to have under a wrong name, if any."""
    given = set(names)
    others = sorted(given.difference(REQUIRED, OPTIONAL))
    for needed in sorted(set(REQUIRED) - given) if given.intersection(REQUIRED) else ():
        if near := near_names(needed, others):
            return f"{near[0]!r} is close to {needed!r} of kvsim's own format"
    return ""


def refuse_unknown(path: Path, names: Iterable[str]) -> None:
    """Raise where a column is none of the format, with the nearest name."""
    known = (*REQUIRED, *OPTIONAL)
    for name in sorted(names):
        if name not in known:
            raise TraceError(f"{path}: {unknown('column', name, known)}")


def _check_has_time(batch: Batch, columns: Mapping[str, NDArray[Any]]) -> None:
    after = columns.get("after_request", np.full(len(batch), -1))
    for row in np.flatnonzero((columns["has_time"] == 0) & (after < 0)).tolist():
        batch.reject(
            row,
            "has_time is 0 and the row follows none",
            "has_time is 0, but after_request is not said; a turn without a time of its own "
            "follows an earlier request",
        )


def _also_after(batch: Batch, columns: Mapping[str, NDArray[Any]]) -> Ragged:
    """Read the lists of further predecessors; only a row that follows one has any."""
    rows = optional_ids(batch, "also_after")
    owners = np.repeat(np.arange(len(batch)), rows.lengths)
    for at in np.flatnonzero(rows.flat < 0).tolist():
        batch.reject_cell(
            int(owners[at]), "also_after", "holds what is no row", int(rows.flat[at]), "rows from 0"
        )
    after = columns.get("after_request", np.full(len(batch), -1))
    for row in np.flatnonzero((rows.lengths > 0) & (after < 0)).tolist():
        batch.reject(
            row,
            "also_after is said and after_request is not",
            "also_after names rows, but after_request none; it is for requests that follow several "
            "outputs: after_request is the one that ended last",
        )
    return rows


def _check_max_tokens(
    batch: Batch, max_tokens: NDArray[np.int64], output_tokens: NDArray[np.int64]
) -> None:
    for row in np.flatnonzero((max_tokens >= 0) & (max_tokens < output_tokens)).tolist():
        batch.reject(
            row,
            "output_tokens contradict max_tokens",
            f"max_tokens is {max_tokens[row]} and output_tokens {output_tokens[row]}; allowed are "
            "-1 (not said) and numbers from output_tokens up",
        )


def _ids(
    batch: Batch, columns: Mapping[str, NDArray[Any]], path: Path, metadata: Metadata
) -> Ragged | None:
    """Read ``prefix_ids``; rows without any are anonymous, rows with too many contradict."""
    block_tokens = metadata.id_block_tokens
    if block_tokens is None:
        if "prefix_ids" in batch.columns:
            raise TraceError(
                f"{path}: column 'prefix_ids' needs metadata that says id_block_tokens (tokens "
                "per id), see docs/traces.md"
            )
        return None
    if "prefix_ids" not in batch.columns:
        return Ragged(np.zeros(len(batch), np.int64), np.zeros(0, np.int64))
    cells = batch.columns["prefix_ids"]
    batch.columns = {
        **batch.columns,
        "prefix_ids": [[] if cell is None else cell for cell in cells],
    }
    ids = Ragged(*id_lists(batch, "prefix_ids"))
    covered = columns["prompt_tokens"]
    if metadata.ids_cover_output:
        covered = covered + columns["output_tokens"]
    most = -(-covered // block_tokens)
    for row in np.flatnonzero(ids.lengths > most).tolist():
        batch.reject(
            row,
            "prefix_ids contradict the lengths",
            f"prefix_ids has {ids.lengths[row]} ids for {covered[row]} tokens; allowed are at most "
            f"{most[row]} (one id for each {block_tokens} tokens begun)",
        )
    return ids
