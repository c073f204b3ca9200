"""Vidur's CSV: ``arrived_at,num_prefill_tokens,num_decode_tokens``, times in seconds.

Its second form, etalon's too, has lengths only (``num_prefill_tokens``, ``num_decode_tokens``,
``num_total_tokens``, ``pd_ratio``) and needs ``--rate`` or ``--arrivals``.
Source: microsoft/vidur, ``data/processed_traces``; project-etalon/etalon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading.cells import decimal_times_ns, whole_numbers
from kvsim.traces.reading.checks import check_total
from kvsim.traces.reading.tables import CsvTable

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("num_prefill_tokens",)
_KNOWN: Final = ("arrived_at", *_NEEDED, "num_decode_tokens", "num_total_tokens", "pd_ratio")


class VidurReader:
    """Reader of both forms."""

    name = "vidur"
    title = "Vidur processed trace, with times or lengths only, as etalon's too (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the prompt's column, with times or without."""
        return head.csv_fields.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        table = CsvTable(source)
        table.need(_NEEDED)
        timed = "arrived_at" in table.header
        if not timed:
            intake.need_arrivals("this form of Vidur's and etalon's files (lengths only)")
        for batch in table.batches(intake):
            columns = {
                "prompt_tokens": whole_numbers(batch, "num_prefill_tokens"),
                "output_tokens": intake.output_tokens(batch, "num_decode_tokens"),
            }
            if timed:
                columns["arrival_ns"] = decimal_times_ns(batch, "arrived_at", scale=9)
            if "num_decode_tokens" in batch.columns:
                lengths = columns["prompt_tokens"], columns["output_tokens"]
                check_total(batch, "num_total_tokens", *lengths, "prefill and decode tokens")
            intake.add(batch, columns)
        intake.note_ignored(table.header, _KNOWN)
        return intake.trace(time_unit="s", time_column="arrived_at")
