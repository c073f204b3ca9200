"""Rows of the file that requests follow, turned into indices of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.columns import parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kvsim.traces.reading.places import Places
    from kvsim.traces.trace.trace import TraceError


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
