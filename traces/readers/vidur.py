"""Vidur's CSV: ``arrived_at,num_prefill_tokens,num_decode_tokens``, times in seconds.

Its second form, lengths without times, is recognised and refused.
Source: microsoft/vidur, ``data/processed_traces``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.readers.cells import decimal_times_ns, whole_numbers
from kvsim.traces.readers.text import CsvTable
from kvsim.traces.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.readers.base import Head
    from kvsim.traces.readers.intake import Intake
    from kvsim.traces.source import Source
    from kvsim.traces.trace import Trace

_LENGTHS: Final = ("num_prefill_tokens", "num_decode_tokens")
_COLUMNS: Final = ("arrived_at", *_LENGTHS)


class VidurReader:
    """Reader of the form with times."""

    name = "vidur"
    title = "Vidur processed trace (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the two columns of lengths, with times or without."""
        return head.csv_fields.issuperset(_LENGTHS)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        table = CsvTable(source)
        if "arrived_at" not in table.header and set(table.header).issuperset(_LENGTHS):
            raise TraceError(
                f"{source.path}: this is Vidur's form without times (lengths only): nothing says "
                f"when requests arrive, so give the form with {', '.join(_COLUMNS)}"
            )
        table.need(_COLUMNS)
        for batch in table.batches(intake):
            columns = {
                "arrival_ns": decimal_times_ns(batch, "arrived_at", scale=9),
                "prompt_tokens": whole_numbers(batch, "num_prefill_tokens"),
                "output_tokens": whole_numbers(batch, "num_decode_tokens"),
            }
            intake.add(batch, columns)
        intake.note_ignored(table.header, (*_COLUMNS, "num_total_tokens", "pd_ratio"))
        return intake.trace(time_unit="s", time_column="arrived_at")
