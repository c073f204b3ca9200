"""kv-cache-tester's sessions: one JSON object a session, with sub-agents inside.

``t`` counts in seconds from the start of the session; a file of several sessions does not say when
they start. A ``subagent`` entry is a container whose own requests count from *its* start, and its
``t`` is when it ended: it starts at ``t - duration_ms / 1000`` (without a duration: by the time
that its own requests take). A request follows the last one of its
thread that had ended, which is at ``t + api_time``, or where that is not recorded the next one's
``think_time`` before it begins. Where calls ran side by side (parallel ones, sub-agents) it follows
all that had ended and that none of the others had waited for. Sub-agents use the parent's ids. An
id stands for 64 tokens, ``len(hash_ids) = floor(in / 64)``, and ids of different sessions are
different blocks.
Source: callanjfox/kv-cache-tester (C. Fox, WEKA).
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import Ragged, shown
from kvsim.traces.reading.cells import decimal_times_ns, id_lists, texts, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, count_models
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.sessions import LOOK_BACK, Call, ended_before
from kvsim.traces.trace.own_format import MAX_BLOCK_TOKENS, is_block_size
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace


_DEPTH: Final = 8
_ID_RANGE: Final = 2**48
_MS: Final = Decimal(1000)


class Sessions:
    """Unrolls sessions one after another; what is common to all must be the same in all.

    Attributes
    ----------
    block_tokens, scope
        Of the ids, known once the first session was seen.
    """

    def __init__(self, intake: Intake) -> None:
        self.block_tokens = 64
        self.scope = "session"
        self._intake = intake
        self._seen: dict[str, int] = {}
        self._num_rows = 0
        self._next_id = 0
        self._contents: dict[int, str] = {}
        self._copies: list[str] = []
        self._num_undated = 0
        self._rows: list[dict[str, Any]] = []

    def rows(self, source: Source) -> Iterator[nested.Numbered]:
        """Yield the requests of all sessions, each with the line of its session."""
        for number, session in nested.documents(source):
            requests = nested.inner(session, "requests")
            if not isinstance(requests, list):
                self._num_rows += 1
                yield number, session if isinstance(session, ValueError) else _no_session(session)
                continue
            name = self._begin(number, session)
            start_ns = self._intake.starts.next_ns()
            self._rows = []
            self._unroll(requests, Decimal(0), [], 0)
            shift = self._id_shift()
            for row in self._rows:
                row |= {"session": name, "start_ns": start_ns, "id_shift": shift}
                if row["after_request"] >= 0:
                    row["after_request"] += self._num_rows
                    others = row.get("also_after", ())
                    row["also_after"] = [other + self._num_rows for other in others]
                yield number, row
            self._num_rows += len(self._rows)
            self._compare(name)

    def notes(self) -> list[str]:
        """Return what the receipt should say."""
        notes = [f"sessions equal but for their id: {'; '.join(self._copies)}"]
        notes = notes if self._copies else []
        if self._num_undated:
            notes.append(
                f"{self._num_undated:,} sub-agents have no duration: they start as long before "
                "their end as their own requests take"
            )
        return notes

    def _begin(self, number: int, session: dict[str, Any]) -> str:
        """Check what concerns the whole session; returns its name."""
        name = str(session.get("id", f"line {number}"))
        if name in self._seen:
            raise self._intake.error(number, f"id {name!r} is also that of line {self._seen[name]}")
        size, scope = session.get("block_size", 64), session.get("hash_id_scope", "local")
        if not is_block_size(size) or scope not in ("local", "global"):
            raise self._intake.error(
                number,
                f"block_size is {shown(size)} and hash_id_scope {shown(scope)}; allowed are whole "
                f"numbers from 1 to {MAX_BLOCK_TOKENS}, and local or global",
            )
        scope = "session" if scope == "local" else "global"
        if self._seen and (size, scope) != (self.block_tokens, self.scope):
            raise self._intake.error(
                number,
                f"block_size {size} with ids of scope {scope} differs from the sessions before it "
                f"({self.block_tokens}, {self.scope}): read them from files of their own",
            )
        self._seen[name] = number
        self.block_tokens, self.scope = size, scope
        return name

    def _unroll(
        self, entries: list[Any], zero: Decimal, parents: list[Call], depth: int
    ) -> list[Call]:
        """Append a thread's requests and return them; the first follows one of ``parents``."""
        if depth > _DEPTH:
            raise TraceError(
                f"{self._intake.source.path}: sub-agents are nested deeper than {_DEPTH}"
            )
        thread: list[Call] = []
        agents: list[Call] = []
        for entry in entries:
            if nested.inner(entry, "type") == "subagent":
                inner = entry.get("requests")
                begin = zero + self._agent_start(entry)
                inner = inner if isinstance(inner, list) else []
                agents += self._unroll(inner, begin, thread, depth + 1)
            elif isinstance(entry, dict):
                self._append(entry, zero, thread, parents)
            else:
                self._rows.append({"after_request": -1, "t": shown(entry)})
        self._tie(thread, agents, parents)
        return thread

    def _tie(self, thread: list[Call], agents: list[Call], parents: list[Call]) -> None:
        """Tie requests to all that had ended: of their thread and its sub-agents, else the parents.

        Where the end of the call before is not known, or none had ended, that call stays the only
        one.
        """
        ends = {call.index: call.end for call in (*thread, *parents)}
        thread = sorted(thread, key=lambda call: call.start)
        for place, call in enumerate(thread):
            row = self._rows[call.index]
            if row["after_request"] >= 0 and ends[row["after_request"]] is None:
                continue
            recent = thread[max(place - LOOK_BACK, 0) : place]
            before = ended_before([*recent, *agents], call.start)
            before = before or ended_before(parents[-LOOK_BACK:], call.start)
            if before:
                row["after_request"] = before[0].index
                row["also_after"] = [other.index for other in before[1:]]

    def _append(
        self, entry: dict[str, Any], zero: Decimal, thread: list[Call], parents: list[Call]
    ) -> None:
        row = {key: entry.get(key) for key in ("t", "in", "out", "hash_ids", "model")}
        start, took = _seconds(entry.get("t")), _seconds(entry.get("api_time"))
        row |= {"after_request": -1, "turn": len(thread)}
        if start is not None:
            row["t"] = start = zero + start
            end = None if took is None else start + took
            row["end"] = end
            before = _latest(thread, start) or _latest(parents, start)
            self._derive_end(before, start, _seconds(entry.get("think_time")))
            row["after_request"] = -1 if before is None else before.index
            thread.append(Call(len(self._rows), start, end))
        self._rows.append(row)

    def _derive_end(self, before: Call | None, start: Decimal, thought: Decimal | None) -> None:
        """An end that is not recorded (streamed calls) follows from the next one's think time."""
        if before is not None and before.end is None and thought is not None:
            before.end = self._rows[before.index]["end"] = max(start - thought, before.start)

    def _agent_start(self, entry: dict[str, Any]) -> Decimal:
        ended = _seconds(entry.get("t")) or Decimal(0)
        lasted = _seconds(entry.get("duration_ms"))
        if lasted is not None:
            return max(ended - lasted / _MS, Decimal(0))
        self._num_undated += 1
        inner = entry.get("requests")
        ends = [
            sum(_seconds(nested.inner(call, key)) or Decimal(0) for key in ("t", "api_time"))
            for call in (inner if isinstance(inner, list) else [])
        ]
        return max(ended - max(ends, default=Decimal(0)), Decimal(0))

    def _id_shift(self) -> int:
        """Number to add to the session's ids so that no other session has them."""
        if self.scope == "global":
            return 0
        lists = [row["hash_ids"] for row in self._rows if isinstance(row.get("hash_ids"), list)]
        try:
            least = min((min(ids) for ids in lists if ids), default=0)
            most = max((max(ids) for ids in lists if ids), default=-1)
            span = most - least + 1
        except TypeError:
            return 0  # what is no number is a fault of its row
        if span > _ID_RANGE:
            names: dict[int, int] = {}
            for row in self._rows:
                row["hash_ids"] = [names.setdefault(i, len(names)) for i in row["hash_ids"] or ()]
            least, span = 0, len(names)
        shift = self._next_id - least
        self._next_id += int(span)
        return int(shift)

    def _compare(self, name: str) -> None:
        """Note a session whose requests are those of an earlier one."""
        lengths = [tuple(str(row.get(key)) for key in ("t", "in", "out")) for row in self._rows]
        same = self._contents.setdefault(hash(tuple(lengths)), name)
        if same != name and len(lengths) > 1:
            self._copies.append(f"{same} and {name}")


def _latest(calls: list[Call], start: Decimal) -> Call | None:
    """Return the last call that ended by then, or else the last that began before."""
    began = None
    for call in reversed(calls[-LOOK_BACK:]):
        if call.start >= start:
            continue
        if call.end is None or call.end <= start:
            return call
        began = began or call
    return began


def _seconds(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return number if number.is_finite() and 0 <= number < 10**12 else None


def _no_session(value: object) -> object:
    return f"requests is missing in {shown(value)}"


_KEYS: Final = ("t", "in", "out", "hash_ids", "end", "session", "start_ns", "id_shift")
_MORE: Final = ("turn", "after_request", "also_after", "model")
_DETECTED_BY: Final = frozenset({"id", "block_size", "hash_id_scope", "requests"})


class KvCacheTesterReader:
    """Reader of sessions, one a line or one a file."""

    name = "kv-cache-tester"
    title = "kv-cache-tester sessions with sub-agents (JSON, one session a line or a file)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of a session."""
        return head.json_keys.issuperset(_DETECTED_BY) or (
            not head.is_list and head.seen_keys.issuperset(_DETECTED_BY | {"hash_ids", "in"})
        )

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first session starts at zero."""
        sessions = Sessions(intake)
        models: Counter[str] = Counter()
        for batch in nested.batches(sessions.rows(source), intake, (*_KEYS, *_MORE)):
            nested.require(batch, _KEYS)
            count_models(models, batch, "model")
            _add(batch, intake, sessions.block_tokens)
        intake.note_models(models)
        intake.receipt.notes += [intake.starts.note(), *sessions.notes()]
        return intake.trace(
            time_unit="s",
            time_column="t",
            by_completion=True,
            id_form=IdForm(
                sessions.block_tokens, covers_output=False, scope=sessions.scope, partial=False
            ),
        )


def _add(batch: Batch, intake: Intake, block_tokens: int) -> None:
    prompt_tokens = whole_numbers(batch, "in")
    ids = Ragged(*id_lists(batch, "hash_ids"))
    rule = f"one id for each {block_tokens} full tokens"
    check_num_ids(batch, ("hash_ids", "in"), ids, prompt_tokens // block_tokens, rule)
    start_ns = _numbers(batch, "start_ns")
    arrival_ns = start_ns + decimal_times_ns(batch, "t", scale=9)
    said = np.array([cell is not None for cell in batch.columns["end"]], dtype=np.bool_)
    filled = [0 if cell is None else cell for cell in batch.columns["end"]]
    batch.columns = {**batch.columns, "end": filled}
    end_ns = start_ns + decimal_times_ns(batch, "end", scale=9)
    columns: dict[str, NDArray[Any]] = {
        "arrival_ns": arrival_ns,
        "end_ns": np.where(said, end_ns, -1),
        "prompt_tokens": prompt_tokens,
        "output_tokens": intake.output_tokens(batch, "out"),
        "session": texts(batch, "session"),
        "turn": _numbers(batch, "turn"),
        "after_request": _numbers(batch, "after_request", -1),
    }
    ids.flat += np.repeat(_numbers(batch, "id_shift"), ids.lengths)
    also_after = [cell or () for cell in batch.columns.get("also_after", [()] * len(batch))]
    intake.add(batch, columns, ids, Ragged.of_lists(also_after))


def _numbers(batch: Batch, name: str, absent: int = 0) -> NDArray[np.int64]:
    """Return a column that this reader made itself; rows that are no requests have none."""
    cells = batch.columns.get(name, [None] * len(batch))
    return np.array([absent if cell is None else cell for cell in cells], dtype=np.int64)
