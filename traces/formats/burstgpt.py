"""BurstGPT's CSV, release 1 and 2: times in seconds, failures as outputs of 0 tokens.

Release 2 adds ``Session ID`` and ``Elapsed time`` (seconds until the output ended).
Source: HPMLL/BurstGPT (Wang et al., KDD 2025).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import is_missing
from kvsim.traces.reading.cells import decimal_times_ns, texts, whole_numbers
from kvsim.traces.reading.checks import check_total, count_models
from kvsim.traces.reading.sessions import SessionLinks
from kvsim.traces.reading.tables import CsvTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("Timestamp", "Request tokens")
_KNOWN: Final = (
    *_NEEDED,
    "Response tokens",
    "Total tokens",
    "Model",
    "Session ID",
    "Elapsed time",
)


class BurstGptReader:
    """Reader of both releases."""

    name = "burstgpt"
    title = "BurstGPT, release 1 and 2 (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the column names."""
        return head.csv_fields.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        table = CsvTable(source)
        table.need(_NEEDED)
        links = SessionLinks()
        models: Counter[str] = Counter()
        for batch in table.batches(intake):
            count_models(models, batch, "Model")
            _add(batch, intake, links)
        intake.note_models(models)
        intake.note_ignored(table.header, _KNOWN)
        return intake.trace(time_unit="s", time_column="Timestamp")


def _add(batch: Batch, intake: Intake, links: SessionLinks) -> None:
    columns: dict[str, NDArray[Any]] = {
        "arrival_ns": decimal_times_ns(batch, "Timestamp", scale=9),
        "prompt_tokens": whole_numbers(batch, "Request tokens"),
        "output_tokens": intake.output_tokens(batch, "Response tokens"),
    }
    if "Response tokens" in batch.columns:
        parts = columns["prompt_tokens"], columns["output_tokens"]
        check_total(batch, "Total tokens", *parts, "request and response tokens")
    if "Session ID" in batch.columns:
        session = texts(batch, "Session ID")
        arrival_ns = columns["arrival_ns"]
        link = links.link(batch, session, arrival_ns, intake.receipt.rows_read)
        columns |= {"session": session, "turn": link.turn, "after_request": link.after_request}
        if "Elapsed time" in batch.columns:
            cells = batch.columns["Elapsed time"]
            said = np.array([not is_missing(cell) for cell in cells], dtype=np.bool_)
            filled = [cell if given else "0" for cell, given in zip(cells, said, strict=True)]
            batch.columns = {**batch.columns, "Elapsed time": filled}
            elapsed_ns = decimal_times_ns(batch, "Elapsed time", scale=9)
            columns["end_ns"] = np.where(said, arrival_ns + elapsed_ns, -1)
    intake.add(batch, columns)
