"""llmperf's individual responses: a JSON list of token counts and latencies, without times.

Accepted: ``number_input_tokens``, ``number_output_tokens``, ``number_total_tokens`` and
``error_code``, which tells failed requests (stored with times 0 and one output token).
Source: ray-project/llmperf, ``*_individual_responses.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.checks import check_total
from kvsim.traces.reading.results import FAILED, Names, columns_of
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NAMES: Final = Names("number_input_tokens", "number_output_tokens", None)
_KEYS: Final = (*_NAMES.keys, "number_total_tokens")


class LlmPerfReader:
    """Reader of individual responses."""

    name = "llmperf"
    title = "llmperf individual responses, lengths only (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the records."""
        return head.is_list and head.seen_keys.issuperset({"number_input_tokens", "ttft_s"})

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it. Places are records, counted from 1."""
        intake.receipt.place = "record"
        intake.need_arrivals("llmperf's result (latencies, but no start times)")
        records = nested.document(source)
        if not isinstance(records, list):
            raise TraceError(f"{source.path}: llmperf's responses are a JSON list; this is none")
        for batch in nested.batches(_rows(records), intake, _KEYS):
            columns = columns_of(batch, intake, _NAMES)
            lengths = columns["prompt_tokens"], columns["output_tokens"]
            check_total(batch, "number_total_tokens", *lengths, "input and output tokens")
            intake.add(batch, columns)
        return intake.trace(time_unit="s", time_column="")


def _rows(records: list[object]) -> Iterator[nested.Numbered]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            yield number, record
            continue
        code = record.get("error_code")
        yield number, {**record, FAILED: None if code in (None, "") else f"error_code {code}"}
