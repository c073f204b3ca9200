"""aiperf's schedules: Mooncake's JSON lines in which each row may have ids, or a session.

Rows without ``hash_ids`` are anonymous. A row of a session without ``timestamp`` comes ``delay`` ms
after the previous output ends (immediately if the file has no delay).
Source: ai-dynamo/aiperf (package aiperf 0.13), custom dataset type ``mooncake_trace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.reading import mooncake_form as form
from kvsim.traces.reading.batch import is_missing
from kvsim.traces.reading.cells import decimal_times_ns, texts, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, optional_ids
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.sessions import SessionLinks
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_OPTIONAL: Final = ("timestamp", "output_length", "hash_ids", "session_id", "delay")


class AiperfReader:
    """Reader of schedules."""

    name = "aiperf"
    title = "aiperf schedule: Mooncake's form with optional ids and sessions (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by ids in some rows but not in the first, or by sessions."""
        if "input_length" not in head.json_keys or head.json_keys & form.OTHERS:
            return False
        if head.json_keys & {"session_id", "delay"}:
            return True
        later = head.seen_keys & {"hash_ids", "session_id", "delay"}
        return "timestamp" in head.json_keys and "hash_ids" not in head.json_keys and bool(later)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        links = SessionLinks()
        for batch in lines.batches(intake, ("input_length",), _OPTIONAL):
            _add(batch, intake, links)
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="ms",
            time_column="timestamp",
            id_form=IdForm(form.BLOCK_TOKENS, covers_output=False, partial=True),
        )


def _add(batch: Batch, intake: Intake, links: SessionLinks) -> None:
    prompt_tokens = whole_numbers(batch, "input_length")
    ids = optional_ids(batch, "hash_ids")
    expected = -(-prompt_tokens // form.BLOCK_TOKENS)
    check_num_ids(batch, ("hash_ids", "input_length"), ids, expected, form.RULE, optional=True)
    columns: dict[str, NDArray[np.generic]] = {
        "prompt_tokens": prompt_tokens,
        "output_tokens": intake.output_tokens(batch, "output_length"),
    }
    cells = batch.columns.get("timestamp", [None] * len(batch))
    timed = np.array([not is_missing(cell) for cell in cells], dtype=np.bool_)
    batch.columns = {**batch.columns, "timestamp": [0 if is_missing(c) else c for c in cells]}
    arrival_ns = decimal_times_ns(batch, "timestamp", scale=6)
    if "session_id" in batch.columns:
        session = texts(batch, "session_id")
        columns["session"] = session
        link = links.link(batch, session, arrival_ns, intake.receipt.rows_read, timed=timed)
        arrival_ns = link.arrival_ns
        columns["turn"], columns["after_request"] = link.turn, link.after_request
        columns["has_time"] = timed
        delays = batch.columns.get("delay", [None] * len(batch))
        said = np.array([not is_missing(cell) for cell in delays], dtype=np.bool_)
        batch.columns = {**batch.columns, "delay": [0 if is_missing(c) else c for c in delays]}
        delay_ns = decimal_times_ns(batch, "delay", scale=6)
        columns["delay_ns"] = np.where(timed & ~said & (link.after_request >= 0), -1, delay_ns)
    else:
        for row in np.flatnonzero(~timed).tolist():
            batch.reject_cell(row, "timestamp", "is not a time", None, "milliseconds from 0")
    intake.add(batch, {**columns, "arrival_ns": arrival_ns}, ids)
