"""inference-perf's ``per_request_lifecycle_metrics.json``: a JSON list of requests.

Accepted: ``start_time``, ``end_time`` (s), ``info.input_tokens``, ``info.output_tokens`` (or the
server's own counts, ``info.response_info.server_usage.prompt_tokens``/``.completion_tokens``),
``error``. Source: kubernetes-sigs/inference-perf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.results import FAILED, Names, columns_of
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NAMES: Final = Names("input_tokens", "output_tokens", "start_time", "end_time")
_SERVER: Final = ("info", "response_info", "server_usage")
_PATHS: Final = {
    "input_tokens": (("info", "input_tokens"), (*_SERVER, "prompt_tokens")),
    "output_tokens": (("info", "output_tokens"), (*_SERVER, "completion_tokens")),
    "start_time": (("start_time",),),
    "end_time": (("end_time",),),
}


class InferencePerfReader:
    """Reader of per-request metrics."""

    name = "inference-perf"
    title = "inference-perf per-request lifecycle metrics (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the records."""
        return head.is_list and head.seen_keys.issuperset({"start_time", "end_time", "info"})

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first request arrives at zero. Places are records, counted from 1."""
        intake.receipt.place = "record"
        records = nested.document(source)
        if not isinstance(records, list):
            raise TraceError(f"{source.path}: per-request metrics are a JSON list; this is none")
        for batch in nested.batches(_rows(records), intake, _NAMES.keys):
            intake.add(batch, columns_of(batch, intake, _NAMES))
        return intake.trace(time_unit="s", time_column="start_time", by_completion=True)


def _rows(records: list[object]) -> Iterator[nested.Numbered]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            yield number, record
            continue
        row = {name: nested.first_of(record, *paths) for name, paths in _PATHS.items()}
        error = record.get("error")
        if error:
            kind = nested.first_of(error, ("error_type",), ("error_msg",))
            row[FAILED] = str(kind if kind is not None else error)[:60]
        yield number, row
