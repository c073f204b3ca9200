"""Sessions of kv-cache-tester unrolled into requests: sub-agents, predecessors, distinct ids."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import shown
from kvsim.traces.reading.sessions.ended_before import LOOK_BACK, Call, ended_before
from kvsim.traces.trace.own_format import MAX_BLOCK_TOKENS, is_block_size
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source

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
