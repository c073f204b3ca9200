"""Azure LLM inference trace, 2023 form: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

Times are wall clock, ``2023-11-16 18:15:46.6805900``, without zone or in UTC.
Source: Azure/AzurePublicDataset, ``AzureLLMInferenceTrace_*.csv`` (Patel et al., ISCA 2024).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.readers.cells import whole_numbers
from kvsim.traces.readers.text import CsvTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.readers.base import Head
    from kvsim.traces.readers.batch import Batch
    from kvsim.traces.readers.intake import Intake
    from kvsim.traces.source import Source
    from kvsim.traces.trace import Trace

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_STAMP: Final = re.compile(
    r"\s*((?:19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}[ T]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)(?:Z|[+-]00:?00)?\s*"
)
_ALLOWED: Final = "UTC times yyyy-mm-dd hh:mm:ss.fffffff from 1970 to 2199"


class AzureReader:
    """Reader of the 2023 form."""

    name = "azure"
    title = "Azure LLM inference trace, 2023 form (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the three column names."""
        return head.csv_fields.issuperset(_COLUMNS)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        table = CsvTable(source)
        table.need(_COLUMNS)
        for batch in table.batches(intake):
            columns = {
                "arrival_ns": _timestamps_ns(batch, "TIMESTAMP"),
                "prompt_tokens": whole_numbers(batch, "ContextTokens"),
                "output_tokens": whole_numbers(batch, "GeneratedTokens"),
            }
            intake.add(batch, columns)
        intake.note_ignored(table.header, _COLUMNS)
        return intake.trace(time_unit="timestamps (UTC)", time_column="TIMESTAMP")


def _timestamps_ns(batch: Batch, name: str) -> NDArray[np.int64]:
    stamps = []
    for row, cell in enumerate(batch.columns[name]):
        match = _STAMP.fullmatch(cell)
        if match is None:
            batch.reject_cell(row, name, "is not a timestamp", cell, _ALLOWED)
        stamps.append(match[1] if match else "1970-01-01")
    try:
        return np.array(stamps, dtype="datetime64[ns]").astype(np.int64)
    except ValueError:  # a 30 February among them
        return np.array([_one_ns(batch, name, row, stamp) for row, stamp in enumerate(stamps)])


def _one_ns(batch: Batch, name: str, row: int, stamp: str) -> int:
    try:
        return int(np.datetime64(stamp, "ns").astype(np.int64))
    except ValueError:
        batch.reject_cell(row, name, "is not a timestamp", stamp, _ALLOWED)
        return 0
