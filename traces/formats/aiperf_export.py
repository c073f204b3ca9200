"""aiperf's per-request export (``profile_export.jsonl``): what a load run did, one record a line.

Accepted: ``metadata.request_start_ns``, ``request_end_ns``, ``x_request_id``, ``conversation_id``,
``turn_index``, ``benchmark_phase``, ``was_cancelled``; ``metrics.input_sequence_length`` and
``metrics.output_sequence_length`` (``.value``); ``error``. Source: ai-dynamo/aiperf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading import nested
from kvsim.traces.reading.cells import texts, whole_numbers
from kvsim.traces.reading.results import FAILED, ID, Names, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NAMES: Final = Names(
    prompt="input_sequence_length",
    output="output_sequence_length",
    start="request_start_ns",
    end="request_end_ns",
    scale=0,
)
_KEYS: Final = (*_NAMES.keys, "conversation_id", "turn_index", "benchmark_phase")


class AiperfExportReader:
    """Reader of exports."""

    name = "aiperf-export"
    title = "aiperf per-request export (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first record."""
        return head.json_keys.issuperset({"metadata", "metrics"}) and (
            "request_start_ns" in head.seen_keys
        )

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first request arrives at zero."""
        turns: dict[tuple[str, int], int] = {}
        for batch in nested.batches(_records(source), intake, _KEYS):
            _add(batch, intake, turns)
        return intake.trace(
            time_unit="ns",
            time_column="metadata.request_start_ns",
            epoch="unix",
            by_completion=True,
        )


def _records(source: Source) -> Iterator[nested.Numbered]:
    for number, record in nested.documents(source):
        if not isinstance(record, dict):
            yield number, record
            continue
        metadata = nested.inner(record, "metadata")
        row: dict[str, Any] = dict(metadata) if isinstance(metadata, dict) else {}
        for name in (_NAMES.prompt, _NAMES.output):
            row[name] = nested.inner(record, "metrics", name, "value")
        row[ID] = row.get("x_request_id")
        if record.get("error"):
            row[FAILED] = _why(record["error"])
        elif row.get("was_cancelled"):
            row[FAILED] = "cancelled"
        yield number, row


def _why(error: object) -> str:
    kind = nested.first_of(error, ("type",), ("message",), ("code",))
    return str(kind if kind is not None else error)[:60]


def _add(batch: Batch, intake: Intake, turns: dict[tuple[str, int], int]) -> None:
    columns = columns_of(batch, intake, _NAMES)
    for row, phase in enumerate(batch.columns.get("benchmark_phase", ())):
        if phase not in (None, "profiling"):
            batch.left_out[row] = f"benchmark_phase is {phase}, not profiling"
    if "conversation_id" in batch.columns:
        nested.require(batch, ("turn_index",))
        session = texts(batch, "conversation_id")
        turn = whole_numbers(batch, "turn_index", low=0, default=0)
        after = np.full(len(batch), -1, dtype=np.int64)
        keep = batch.kept()
        for row, key in enumerate(zip(session.tolist(), turn.tolist(), strict=True)):
            if keep[row] and key[0]:
                after[row] = turns.get((key[0], key[1] - 1), -1)
                turns[key] = intake.receipt.rows_read + row
        columns |= {"session": session, "turn": turn, "after_request": after}
    intake.add(batch, columns)
