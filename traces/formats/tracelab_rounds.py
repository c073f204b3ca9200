"""TraceLab's rounds: one JSON line a round of a coding-agent session, with event times.

A round arrives with its first timing event (message or tool result) and ends with its last;
``input_tokens_total = prefix_tokens + newly_append_tokens``. A round follows the one before it in
its session; where rounds ran side by side, all that had ended when it began.
Source: uw-syfi/TraceLab, ``round_trace.jsonl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import shown
from kvsim.traces.reading.cells import texts, whole_numbers
from kvsim.traces.reading.checks import check_total
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.sessions.ended_before import RecentCalls
from kvsim.traces.reading.sessions.prefix_chains import BLOCK_TOKENS, NOTE, PrefixChains
from kvsim.traces.reading.sessions.sessions import SessionLinks
from kvsim.traces.reading.timestamps import Stamps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_LENGTHS: Final = ("input_tokens_total", "prefix_tokens", "newly_append_tokens")
_KEYS: Final = ("session_id", *_LENGTHS, "output_tokens", "first event", "last event", "round_id")
_DETECTED_BY: Final = frozenset({"session_id", "input_tokens_total", "output_tokens"})


class TraceLabRoundsReader:
    """Reader of rounds."""

    name = "tracelab-rounds"
    title = "TraceLab rounds with event times (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        return head.json_keys.issuperset(_DETECTED_BY | {"timing_events"})

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first round arrives at zero."""
        stamps, links, chains = Stamps(), SessionLinks(), PrefixChains()
        recent = RecentCalls()
        for batch in nested.batches(_rounds(source), intake, _KEYS):
            nested.require(batch, _KEYS)
            _add(batch, intake, stamps, links, chains, recent)
        intake.receipt.notes.append(NOTE)
        return intake.trace(
            time_unit=stamps.unit,
            time_column="timing_events[0].timestamp",
            epoch="unix",
            by_completion=True,
            id_form=IdForm(BLOCK_TOKENS, covers_output=True, scope="session", partial=False),
        )


def _rounds(source: Source) -> Iterator[nested.Numbered]:
    for number, line in nested.documents(source):
        if not isinstance(line, dict):
            yield number, line
            continue
        events = line.get("timing_events")
        stamps = [nested.inner(e, "timestamp") for e in events] if isinstance(events, list) else []
        known = [stamp for stamp in stamps if isinstance(stamp, str)]
        first, last = (min(known), max(known)) if known else (None, None)
        yield number, {**line, "first event": first, "last event": last}


def _add(
    batch: Batch,
    intake: Intake,
    stamps: Stamps,
    links: SessionLinks,
    chains: PrefixChains,
    recent: RecentCalls,
) -> None:
    session = texts(batch, "session_id")
    for row in [row for row, name in enumerate(session.tolist()) if not name]:
        batch.reject_cell(row, "session_id", "is missing", None, f"text, not {shown('')}")
    prompt_tokens = whole_numbers(batch, "input_tokens_total")
    prefix_tokens = whole_numbers(batch, "prefix_tokens", low=0, default=0)
    new_tokens = whole_numbers(batch, "newly_append_tokens", low=0, default=0)
    check_total(batch, "input_tokens_total", prefix_tokens, new_tokens, "prefix and new tokens")
    output_tokens = intake.output_tokens(batch, "output_tokens")
    arrival_ns = stamps.read_ns(batch, "first event")
    end_ns = stamps.read_ns(batch, "last event")
    end_ns = np.where(end_ns > arrival_ns, end_ns, -1)
    link = links.link(batch, session, arrival_ns, intake.receipt.rows_read)
    total = prompt_tokens + output_tokens
    ids = chains.ids(batch, session, prefix_tokens, total)
    columns: dict[str, NDArray[Any]] = {
        "ids": texts(batch, "round_id"),
        "arrival_ns": link.arrival_ns,
        "end_ns": end_ns,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "session": session,
        "turn": link.turn,
        "after_request": link.after_request,
    }
    also_after = recent.tie(batch, columns, intake.receipt.rows_read)
    intake.add(batch, columns, ids, also_after)
