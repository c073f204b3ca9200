"""Which turn follows which: rows of one session, in the order in which they stand in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch


class Link(NamedTuple):
    """Columns that tie turns together; ``after_request`` is a row of the file, from 0."""

    arrival_ns: NDArray[np.int64]
    turn: NDArray[np.int64]
    after_request: NDArray[np.int64]


class SessionLinks:
    """Remembers the last row of every session; rows with faults are passed over."""

    def __init__(self) -> None:
        self.num_backwards = 0
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
        of a session needs a time of its own. A row earlier than the one before it is not tied
        (:attr:`num_backwards`).
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
                        "the row has no time of its own and follows no other of its session",
                    )
                    continue
                link.arrival_ns[row] = last[2]
            if last is not None and last[2] > link.arrival_ns[row]:
                self.num_backwards += 1  # the file is not in the session's order: no tie
            elif last is not None:
                link.after_request[row], link.turn[row] = last[0], last[1] + 1
            if name:
                turn = int(link.turn[row])
                self._last[name] = (rows_before + row, turn, int(link.arrival_ns[row]))
        return link
