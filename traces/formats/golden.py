"""Golden traces: one JSON object whose requests have ids over prompt *and* output.

They belong to the recorded schedules of real engines and keep their own zero of time. With
``"stop": true`` the last token is a stop token: the engine was told the room left in the context
(``max_tokens`` -1 here), not the length. Without it ``output_len`` was the ``max_tokens``. With
``timeout_ns`` the client gives up so long after the arrival.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import Batch, Ragged, shown
from kvsim.traces.reading.cells import (
    INT64_MAX,
    INT64_MIN,
    decimal_times_ns,
    id_lists,
    texts,
    whole_numbers,
)
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.tables import parse_json
from kvsim.traces.trace.own_format import MAX_BLOCK_TOKENS, is_block_size
from kvsim.traces.trace.trace import LENGTH, STOP, TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_KEYS: Final = (
    "id",
    "arrival_ns",
    "prompt_len",
    "output_len",
    "priority",
    "hash_ids",
    "stop",
    "timeout_ns",
)
_DETECTED_BY: Final = frozenset({"requests", "prompt_len", "output_len", "hash_ids"})


class GoldenReader:
    """Reader of golden traces."""

    name = "golden"
    title = "golden trace of a recorded schedule (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the document and of its requests."""
        if "trace_block_size" in head.json_keys and "requests" in head.json_keys:
            return True
        return head.json_keys.issuperset(_DETECTED_BY)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; times stay as they are. Places are rows: requests counted from 1."""
        intake.receipt.place = "row"
        document = _document(source)
        block_tokens = _block_tokens(source.path, document)
        requests: list[Any] = document["requests"]
        first = 0
        while first < len(requests) and (wanted := intake.rows_wanted()):
            batch = _batch(requests[first : first + wanted], first)
            first += len(batch)
            _add(batch, intake, block_tokens)
        name = document.get("name")
        return intake.trace(
            time_unit="ns",
            time_column="arrival_ns",
            keep_zero=True,
            id_form=IdForm(block_tokens, covers_output=True),
            name=name if isinstance(name, str) else None,
        )


def canonical_sha256(document: object) -> str:
    """Hash a golden trace as the headers of recorded logs do: sorted keys, no spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _document(source: Source) -> dict[str, Any]:
    try:
        with source.text(newline=None) as stream:
            document = parse_json(stream.read())
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise TraceError(f"{source.path}: the file is not one JSON document: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("requests"), list):
        raise TraceError(
            f"{source.path}: a golden trace is a JSON object with a list 'requests'; this is "
            f"{shown(document)}"
        )
    return document


def _block_tokens(path: Path, document: dict[str, Any]) -> int:
    value = document.get("trace_block_size")
    if isinstance(value, int) and is_block_size(value):
        return value
    raise TraceError(
        f"{path}: trace_block_size is {shown(value)}; allowed are whole numbers from 1 to "
        f"{MAX_BLOCK_TOKENS}"
    )


def _batch(requests: list[Any], first: int) -> Batch:
    batch = Batch(np.arange(first + 1, first + len(requests) + 1), {})
    for row, request in enumerate(requests):
        if not isinstance(request, dict):
            batch.reject(row, "is not an object", f"the request is {shown(request)}, no object")
    objects = [request if isinstance(request, dict) else {} for request in requests]
    batch.columns = {key: [request.get(key) for request in objects] for key in _KEYS}
    return batch


def _add(batch: Batch, intake: Intake, block_tokens: int) -> None:
    prompt_tokens = whole_numbers(batch, "prompt_len")
    output_tokens = whole_numbers(batch, "output_len")
    ids = Ragged(*id_lists(batch, "hash_ids"))
    covered = -(-(prompt_tokens + output_tokens) // block_tokens)
    for row in np.flatnonzero(ids.lengths < covered).tolist():
        batch.reject(
            row,
            "hash_ids contradict the lengths",
            f"hash_ids has {ids.lengths[row]} ids for {prompt_tokens[row]} + {output_tokens[row]} "
            f"tokens; allowed are {covered[row]} or more (one for each {block_tokens} tokens)",
        )
    intake.clip("hash_ids beyond prompt and output", batch, ids.lengths > covered)
    ends_by = _ends_by(batch)
    columns = {
        "ids": texts(batch, "id"),
        "arrival_ns": decimal_times_ns(batch, "arrival_ns", scale=0),
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "max_tokens": np.where(ends_by == STOP, -1, output_tokens),
        "ends_by": ends_by,
        "priority": whole_numbers(batch, "priority", low=INT64_MIN, high=INT64_MAX, default=0),
    }
    if any(value is not None for value in batch.columns["timeout_ns"]):
        columns["timeout_ns"] = whole_numbers(
            batch, "timeout_ns", low=0, high=INT64_MAX, default=-1
        )
    intake.add(batch, columns, ids.clip(covered))


def _ends_by(batch: Batch) -> NDArray[np.uint8]:
    ends_by = np.full(len(batch), LENGTH, dtype=np.uint8)
    for row, stop in enumerate(batch.columns["stop"]):
        if stop is True:
            ends_by[row] = STOP
        elif stop is not None and stop is not False:
            batch.reject_cell(row, "stop", "is not true or false", stop, "true and false")
    return ends_by
