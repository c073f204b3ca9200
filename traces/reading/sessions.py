"""Which turn follows which: sessions, their starts, and the ids that their turns share.

Rows of one session stand in a file in their order, or name the row that they follow, or only say
when each call began and ended. Here all three become predecessors, and turns that share so many
leading tokens with the last one get prefix ids.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.columns import parts
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.row_lines import Places
    from kvsim.traces.reading.wishes import Wishes


class Link(NamedTuple):
    """Columns that tie turns together; ``after_request`` is a row of the file, from 0."""

    arrival_ns: NDArray[np.int64]
    turn: NDArray[np.int64]
    after_request: NDArray[np.int64]


class SessionLinks:
    """Remembers the last row of every session; rows with faults are passed over."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int, int]] = {}  # session -> row, turn, arrival

    def link(
        self,
        batch: Batch,
        session: NDArray[np.object_],
        arrival_ns: NDArray[np.int64],
        rows_before: int,
        *,
        timed: NDArray[np.bool_] | None = None,
    ) -> Link:
        """Tie each row to the one before it in its session; an empty session is none.

        A row that is not ``timed`` takes the arrival of the turn before it as its bound; the first
        of a session needs a time of its own. A row earlier than the one before it is not tied.
        """
        count = len(batch)
        link = Link(arrival_ns.copy(), np.zeros(count, np.int64), np.full(count, -1, np.int64))
        keep = batch.kept()
        for row, name in enumerate(session.tolist()):
            if not keep[row]:
                continue
            last = self._last.get(name) if name else None
            if timed is not None and not timed[row]:
                if last is None:
                    batch.reject(
                        row,
                        "is the first of its session and has no time",
                        "the row has no time and follows no earlier row of its session",
                    )
                    continue
                link.arrival_ns[row] = last[2]
            if last is not None and last[2] <= link.arrival_ns[row]:
                link.after_request[row], link.turn[row] = last[0], last[1] + 1
            if name:
                turn = int(link.turn[row])
                self._last[name] = (rows_before + row, turn, int(link.arrival_ns[row]))
        return link


@dataclass(slots=True)
class SessionStarts:
    """Start times of sessions, in file order; the first is 0.

    A single session needs no law. In a read that needs no start times, all sessions start at 0.
    """

    path: Path
    wishes: Wishes
    num_sessions: int = field(init=False, default=0)
    _times: Iterator[int] | None = field(init=False, default=None)

    def next_ns(self) -> int:
        """Return the start of the next session; raise TraceError if no law gives it."""
        self.num_sessions += 1
        rule = self.wishes.session_starts
        if rule is not None:
            if self._times is None:
                self._times = rule.stream_ns(self.wishes.rngs[1])
            return next(self._times)
        if self.num_sessions > 1 and not self.wishes.may_lack_times:
            raise TraceError(
                f"{self.path}: the times of each session begin at 0, so the file has no starts of "
                "sessions: give --session-rate R (sessions per second, Poisson) or "
                "--session-starts rate=R|poisson(rate=R)|gamma(cv=X,rate=R)|weibull(shape=X,"
                "rate=R), or run a closed loop with kvsim simulate --users N"
            )
        return 0

    @property
    def unknown(self) -> bool:
        """Whether several sessions start at 0 because no law gives their starts."""
        return self.wishes.session_starts is None and self.num_sessions > 1

    def check_used(self) -> None:
        """Raise TraceError if the user gave session starts and the file has times."""
        if self.wishes.session_starts is not None and not self.num_sessions:
            raise TraceError(
                f"{self.path}: --session-starts and --session-rate are for files whose sessions "
                "all begin at 0, and this file has arrival times: leave them out (--rate-scale "
                "changes the rate)"
            )

    def note(self) -> str:
        """Return the note on the starts of sessions."""
        rule = self.wishes.session_starts
        if rule is not None:
            return (
                f"{counted(self.num_sessions, 'session starts', 'sessions start')} by "
                f"--session-starts {rule}"
            )
        if self.num_sessions == 1:
            return "one session, which starts at 0"
        return f"{self.num_sessions:,} sessions; the file has no starts of sessions: all start at 0"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """What is needed to find them.

    Attributes
    ----------
    order
        Requests of the file, by place in the trace; None where the two are the same.
    num_rows
        Rows of the file from 0 that may be named; None where reading stopped before its end.
    error
        Makes the error about a request of the file.
    """

    places: Places
    order: NDArray[np.int64] | None
    num_rows: int | None
    error: Callable[[int, str], TraceError]

    def find(self, after: NDArray[np.int64], also: Ragged | None) -> tuple[Ragged | None, int]:
        """Replace ``after`` in place, -1 where the row was left out; also the lists, and a count.

        Returns the lists of the other requests that each one follows, without what was left out
        (None where no list is left), and how many requests lost the one they followed.
        """
        position = None
        if self.order is not None:
            position = np.empty(len(after), dtype=np.int64)
            position[self.order] = np.arange(len(after))
        num_lost = 0
        for part in parts(len(after)):
            owners = np.arange(part.start, part.stop)
            found = self._found("after_request", after[part], owners, position)
            num_lost += int(np.count_nonzero((after[part] >= 0) & (found < 0)))
            after[part] = found
        if also is None:
            return None, num_lost
        owners = np.repeat(np.arange(len(after)), also.lengths)
        found = self._found("also_after", also.flat, owners, position)
        keep = (found >= 0) & (after[owners] >= 0) & (found != after[owners])
        if not keep.any():
            return None, num_lost
        return Ragged(np.bincount(owners[keep], minlength=len(after)), found[keep]), num_lost

    def _found(
        self,
        name: str,
        rows: NDArray[np.int64],
        owners: NDArray[np.int64],
        position: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Indices of the requests in ``rows``, which must be earlier than their ``owners``."""
        found = np.where(rows >= 0, self.places.index_of(rows), -1)
        here = owners
        if position is not None:
            found, here = np.where(found >= 0, position[found], -1), position[owners]
        wrong = found >= here
        if self.num_rows is not None:
            wrong |= rows >= self.num_rows
        first = np.flatnonzero(wrong)
        if len(first):
            raise self.error(
                int(owners[first[0]]),
                f"{name} is {int(rows[first[0]])}, which is no earlier request; allowed are -1 "
                "(none) and the index (from 0) of a row that arrives before this one",
            )
        return found


LOOK_BACK: Final = 64
"""So many calls before a request are looked at."""


@dataclass(slots=True)
class Call:
    """A recorded request: what it is known by, begin and end on one clock (None: not known)."""

    index: int
    start: Any
    end: Any


def ended_before(calls: Iterable[Call], start: Any) -> list[Call]:
    """Return the calls that one which begins at ``start`` waited for, the last to end first."""
    ended = [c for c in calls if c.end is not None and c.end <= start and c.start < start]
    if not ended:
        return []
    newest = max(call.start for call in ended)
    last = [call for call in ended if call.end > newest or call.start == newest]
    return sorted(last, key=lambda call: call.end, reverse=True)


class RecentCalls:
    """The last calls of each session of a file whose rows stand in order of begin, or of end."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[Call]] = {}

    def tie(
        self,
        batch: Batch,
        columns: Mapping[str, NDArray[Any]],
        rows_before: int,
        told: NDArray[np.bool_] | None = None,
    ) -> Ragged:
        """Tie rows to all calls of their session that they waited for.

        The last to end becomes ``after_request`` (in place), the others are returned as rows of
        the file. What is ``told`` stays, and so does a row behind one whose end is not known.
        """
        keep = batch.kept()
        told = np.zeros(len(batch), dtype=np.bool_) if told is None else told
        others: list[list[int]] = [[] for _ in range(len(batch))]
        for row, name in enumerate(columns["session"].tolist()):
            if not (keep[row] and name):
                continue
            calls = self._calls.setdefault(name, deque(maxlen=LOOK_BACK))
            start_ns, end_ns = int(columns["arrival_ns"][row]), int(columns["end_ns"][row])
            before = ended_before(calls, start_ns)
            if before and calls[-1].end is not None and not told[row]:
                columns["after_request"][row] = before[0].index
                others[row] = [call.index for call in before[1:]]
            calls.append(Call(rows_before + row, start_ns, end_ns if end_ns >= 0 else None))
        return Ragged.of_lists(others)


BLOCK_TOKENS: Final = 16
NOTE: Final = (
    f"ids of {BLOCK_TOKENS} tokens derived from the given prefix lengths: a turn shares its "
    "leading prefix with the previous turn of its session, and nothing with other sessions"
)


class PrefixChains:
    """Keeps the last chain of ids of each session; O(blocks) for each turn."""

    def __init__(self) -> None:
        self._next_id = 0
        self._last: dict[str, tuple[NDArray[np.int64], int]] = {}  # session -> chain, its tokens

    def ids(
        self,
        batch: Batch,
        session: NDArray[np.object_],
        prefix_tokens: NDArray[np.int64],
        total_tokens: NDArray[np.int64],
    ) -> Ragged:
        """Return ids of the full blocks of prompt and output; rows with faults get none."""
        keep = batch.kept()
        chains: list[NDArray[np.int64]] = []
        rows = zip(session.tolist(), prefix_tokens.tolist(), total_tokens.tolist(), strict=True)
        for row, (name, prefix, total) in enumerate(rows):
            if not keep[row]:
                chains.append(np.zeros(0, dtype=np.int64))
                continue
            before, tokens = self._last.get(name, (np.zeros(0, dtype=np.int64), 0))
            kept = before[: min(prefix, tokens) // BLOCK_TOKENS]
            num_new = total // BLOCK_TOKENS - len(kept)
            new = np.arange(self._next_id, self._next_id + num_new)
            self._next_id += num_new
            chain = np.concatenate([kept, new])
            self._last[name] = (chain, total)
            chains.append(chain)
        lengths = np.fromiter(map(len, chains), np.int64, len(chains))
        return Ragged(lengths, np.concatenate(chains))
