"""OpenTelemetry ``gen_ai.*`` spans with token counts, as JSON.

Accepted: a document with ``spans`` whose ``attributes`` are an object (``start_time``, ``end_time``
in ISO 8601), and OTLP's ``resourceSpans[].scopeSpans[].spans[]`` (attributes as key and value,
``startTimeUnixNano``), as one document or one a line. Token counts: ``gen_ai.usage.`` with
``input_tokens``/``output_tokens``, or the older ``prompt_tokens``/``completion_tokens``.
Spans without any ``gen_ai.`` attribute are other work and are left out. The session is
``gen_ai.conversation.id`` or the trace, the user ``user.id`` or ``enduser.id``; a span follows its
parent where that is a request, too, and otherwise all requests of its session that had ended when
it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.formats.otel_spans import spans_of
from kvsim.traces.reading import nested
from kvsim.traces.reading.cells import texts, whole_numbers
from kvsim.traces.reading.sessions.ended_before import RecentCalls
from kvsim.traces.reading.timestamps import Stamps
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_INPUT: Final = "gen_ai.usage.input_tokens"
_OUTPUT: Final = "gen_ai.usage.output_tokens"
_KEYS: Final = (_INPUT, _OUTPUT, "start_time", "end_time", "start ns", "end ns", "span_id")
_MORE: Final = ("parent_span_id", "session", "user", "gen_ai.request.max_tokens", "failed")
_LATEST_NS: Final = 2**62


class OtelReader:
    """Reader of spans."""

    name = "otel"
    title = "OpenTelemetry gen_ai spans with token counts (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by spans and ``gen_ai.`` attributes."""
        spans = head.seen_keys & {"spans", "resourceSpans", "scopeSpans"}
        return bool(spans) and '"gen_ai.' in head.text

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first span starts at zero. Places are spans, counted from 1."""
        intake.receipt.place = "span"
        spans = list(spans_of(source))
        requests = [(number, span) for number, span in spans if isinstance(span, dict)]
        if not any(_INPUT in span and _OUTPUT in span for _, span in requests):
            raise TraceError(
                f"{source.path}: these OpenTelemetry spans have no token counts "
                f"({_INPUT} and {_OUTPUT}), and kvsim counts no tokens of text; record them with "
                "counts"
            )
        stamps = Stamps()
        rows: dict[str, tuple[int, int]] = {}
        recent = RecentCalls()
        for batch in nested.batches(spans, intake, (*_KEYS, *_MORE)):
            _add(batch, intake, stamps, rows, recent)
        return intake.trace(
            time_unit="timestamps (UTC)", time_column="start time", epoch="unix", by_completion=True
        )


def _add(
    batch: Batch,
    intake: Intake,
    stamps: Stamps,
    rows: dict[str, tuple[int, int]],
    recent: RecentCalls,
) -> None:
    nested.require(batch, (*_KEYS, *_MORE))
    for row, why in enumerate(batch.columns["failed"]):
        if why:
            batch.fail(row, f"the span says {why}", f"the request failed (the span says {why})")
    arrival_ns = _times(batch, stamps, "start ns", "start_time")
    columns: dict[str, NDArray[Any]] = {
        "arrival_ns": arrival_ns,
        "end_ns": _times(batch, stamps, "end ns", "end_time"),
        "prompt_tokens": whole_numbers(batch, _INPUT),
        "output_tokens": intake.output_tokens(batch, _OUTPUT),
        "session": texts(batch, "session"),
        "ids": texts(batch, "span_id"),
    }
    if any(cell is not None for cell in batch.columns["user"]):
        columns["user"] = texts(batch, "user")
    after = _parents(batch, intake, columns["ids"], arrival_ns, rows)
    columns["after_request"] = after
    others = recent.tie(batch, columns, intake.receipt.rows_read, told=after >= 0)
    intake.add(batch, columns, also_after=others)


def _times(batch: Batch, stamps: Stamps, exact: str, written: str) -> NDArray[np.int64]:
    """Read whole Unix nanoseconds where the form has them, else calendar times."""
    if all(cell is None for cell in batch.columns[exact]):
        return stamps.read_ns(batch, written)
    return whole_numbers(batch, exact, low=0, high=_LATEST_NS)


def _parents(
    batch: Batch,
    intake: Intake,
    ids: NDArray[np.object_],
    arrival_ns: NDArray[np.int64],
    rows: dict[str, tuple[int, int]],
) -> NDArray[np.int64]:
    """Tie a span to its parent span, if that is a request that starts before it."""
    after = np.full(len(batch), -1, dtype=np.int64)
    keep = batch.kept()
    before = intake.receipt.rows_read
    starts = zip(ids.tolist(), arrival_ns.tolist(), strict=True)
    for row, (name, start_ns) in enumerate(starts):
        if keep[row] and name:
            rows[name] = (before + row, start_ns)
    for row, parent in enumerate(batch.columns["parent_span_id"]):
        if keep[row] and isinstance(parent, str) and parent in rows:
            index, start_ns = rows[parent]
            after[row] = index if start_ns < arrival_ns[row] else -1
    return after
