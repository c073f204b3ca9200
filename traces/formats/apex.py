"""APEX's JSON lines: ``StartTimeOffset`` (ns), ``ContextTokens``, ``GeneratedTokens``.

Source: microsoft/apex_plus, ``traces``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading.cells import decimal_times_ns, texts, whole_numbers
from kvsim.traces.reading.checks import check_total
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("StartTimeOffset", "ContextTokens", "GeneratedTokens")
_OPTIONAL: Final = ("TotalTokens", "RequestID")


class ApexReader:
    """Reader of APEX traces."""

    name = "apex"
    title = "APEX trace (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the three keys."""
        return head.json_keys.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _NEEDED, _OPTIONAL):
            prompt_tokens = whole_numbers(batch, "ContextTokens")
            output_tokens = intake.output_tokens(batch, "GeneratedTokens")
            sum_of = "context and generated tokens"
            check_total(batch, "TotalTokens", prompt_tokens, output_tokens, sum_of)
            columns = {
                "arrival_ns": decimal_times_ns(batch, "StartTimeOffset", scale=0),
                "prompt_tokens": prompt_tokens,
                "output_tokens": output_tokens,
            }
            ids = {"ids": texts(batch, "RequestID")} if "RequestID" in batch.columns else {}
            intake.add(batch, {**columns, **ids})
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(time_unit="ns", time_column="StartTimeOffset")
