"""TraceLab's replay CSVs: rounds of coding-agent sessions.

``session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms``: the prompt
is ``prefix_len + input_len``. ``arrival_time`` (ms) is when the *session* starts, so only its first
round has a time of its own; each later one comes ``tool_wait_after_ms`` after the previous output.
A file without ``arrival_time`` does not say when sessions start.
Source: uw-syfi/TraceLab, ``replay/examples``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.cells import decimal_times_ns, texts, whole_numbers
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.sessions import BLOCK_TOKENS, NOTE, PrefixChains, SessionLinks
from kvsim.traces.reading.tables import CsvTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = (
    "session_id",
    "round_idx",
    "prefix_len",
    "input_len",
    "output_len",
    "tool_wait_after_ms",
)
_KNOWN: Final = (*_NEEDED, "arrival_time")


class TraceLabReader:
    """Reader of the CSVs."""

    name = "tracelab"
    title = "TraceLab replay sessions (CSV)"

    def detect(self, head: Head) -> bool:
        """Tell by the column names."""
        return head.csv_fields.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first session starts at zero."""
        table = CsvTable(source)
        table.need(_NEEDED)
        rounds = _Rounds(intake)
        for batch in table.batches(intake):
            rounds.add(batch)
        intake.note_ignored(table.header, _KNOWN)
        intake.receipt.notes.append(NOTE)
        if "arrival_time" not in table.header:
            intake.receipt.notes.append(intake.starts.note())
        return intake.trace(
            time_unit="ms",
            time_column="arrival_time",
            by_completion=True,
            id_form=IdForm(BLOCK_TOKENS, covers_output=True, scope="session", partial=False),
        )


class _Rounds:
    """What carries over from batch to batch: starts, waits and chains of sessions."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._links = SessionLinks()
        self._chains = PrefixChains()
        self._start_ns: dict[str, int] = {}
        self._wait_ns: dict[str, int] = {}

    def add(self, batch: Batch) -> None:
        """Check a batch and hand it on."""
        session = texts(batch, "session_id")
        prefix_tokens = whole_numbers(batch, "prefix_len", low=0)
        prompt_tokens = prefix_tokens + whole_numbers(batch, "input_len", low=0)
        for row in np.flatnonzero(prompt_tokens == 0).tolist():
            batch.reject(row, "the prompt is empty", "prefix_len + input_len is 0; a prompt has 1")
        output_tokens = self._intake.output_tokens(batch, "output_len")
        wait_ns = decimal_times_ns(batch, "tool_wait_after_ms", scale=6)
        whole_numbers(batch, "round_idx", low=0)
        arrival_ns, timed, delay_ns = self._times(batch, session, wait_ns)
        rows_before = self._intake.receipt.rows_read
        link = self._links.link(batch, session, arrival_ns, rows_before, timed=timed)
        total = prompt_tokens + output_tokens
        ids = self._chains.ids(batch, session, prefix_tokens, total)
        columns: dict[str, NDArray[Any]] = {
            "arrival_ns": link.arrival_ns,
            "prompt_tokens": prompt_tokens,
            "output_tokens": output_tokens,
            "session": session,
            "turn": link.turn,
            "after_request": link.after_request,
            "delay_ns": delay_ns,
            "has_time": timed,
        }
        self._intake.add(batch, columns, ids)

    def _times(
        self, batch: Batch, session: NDArray[np.object_], wait_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Return arrivals, which of them are the rounds' own, and delays after the round before."""
        stated = None
        if "arrival_time" in batch.columns:
            stated = decimal_times_ns(batch, "arrival_time", scale=6)
        arrival_ns = np.zeros(len(batch), dtype=np.int64)
        timed = np.ones(len(batch), dtype=np.bool_)
        delay_ns = np.zeros(len(batch), dtype=np.int64)
        keep = batch.kept()
        for row, name in enumerate(session.tolist()):
            if not keep[row]:
                continue
            first = name not in self._start_ns
            if stated is not None:
                arrival_ns[row] = stated[row]
            elif first:
                arrival_ns[row] = self._intake.starts.next_ns()
            if first:
                self._start_ns[name] = int(arrival_ns[row])
            else:
                delay_ns[row] = self._wait_ns[name]
                timed[row] = stated is not None and arrival_ns[row] > self._start_ns[name]
            self._wait_ns[name] = int(wait_ns[row])
        return arrival_ns, timed, delay_ns
