"""Azure LLM inference traces: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

Times are wall clock: without zone in the 2023 form (``2023-11-16 18:15:46.6805900``), with one in
the 2024 form (``2024-05-10 00:00:00.009930+00:00``).
Source: Azure/AzurePublicDataset, ``AzureLLMInferenceTrace_*.csv`` (Patel et al., ISCA 2024;
Stojkovic et al., HPCA 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading.cells import whole_numbers
from kvsim.traces.reading.tables import CsvTable
from kvsim.traces.reading.timestamps import Stamps

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("TIMESTAMP", "ContextTokens")
_COLUMNS: Final = (*_NEEDED, "GeneratedTokens")


class AzureReader:
    """Reader of both forms."""

    name = "azure"
    title = "Azure LLM inference trace, 2023 and 2024 form (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the column names."""
        return head.csv_fields.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        table = CsvTable(source)
        table.need(_NEEDED)
        stamps = Stamps()
        for batch in table.batches(intake):
            columns = {
                "arrival_ns": stamps.read_ns(batch, "TIMESTAMP"),
                "prompt_tokens": whole_numbers(batch, "ContextTokens"),
                "output_tokens": intake.output_tokens(batch, "GeneratedTokens"),
            }
            intake.add(batch, columns)
        intake.note_ignored(table.header, _COLUMNS)
        return intake.trace(time_unit=stamps.unit, time_column="TIMESTAMP", epoch="unix")
