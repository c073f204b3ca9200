"""Which calls a request may have waited for, told by when calls began and ended.

It can have waited for every call that had ended when it began. It is enough to name those that no
other of them can have waited for in turn, which are those that ended after the last of them began::

    a |-----|
    b          |--------|
    c             |---|
    d                      |---      had waited for b and c, and so for a
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch

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
