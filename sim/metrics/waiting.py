"""The longest wait, and requests that later arrivals overtook: effects of the queue order.

*Overtaken* counts, for each request, the later arrivals that were scheduled before it (the bypasses
of bounded waiting). FCFS has none. A request with more than ``STARVED_AFTER`` of them counts as
starved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.documents.summary import Queue
from kvsim.sim.recording.recorder import NOT_SENT, REFUSED
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.metrics.request_columns import RequestColumns

STARVED_AFTER: Final = 100


def summarise_waiting(columns: RequestColumns, end_ps: int) -> Queue:
    """Return the longest wait and starvation over all requests that were queued; O(n log^2 n)."""
    waited = (columns.status != REFUSED) & (columns.status != NOT_SENT)
    arrival_ps = columns.arrival_ps[waited]
    start_ps = columns.first_scheduled_ps[waited]
    entered = start_ps >= 0
    left_ps = np.where(columns.finish_ps >= 0, columns.finish_ps, end_ps)[waited]
    wait_ps = np.where(entered, start_ps, np.maximum(left_ps, arrival_ps)) - arrival_ps
    passed = overtaken(arrival_ps, np.where(entered, start_ps, left_ps), entered)
    starved = int(np.count_nonzero(passed > STARVED_AFTER))
    return Queue(
        longest_wait_s=int(wait_ps.max(initial=0)) / PS_PER_S,
        most_overtaken=int(passed.max(initial=0)),
        starved_after=STARVED_AFTER,
        starved=starved,
        starved_percent=100 * starved / len(passed) if len(passed) else None,
    )


def overtaken(
    arrival_ps: NDArray[np.int64], start_ps: NDArray[np.int64], entered: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return how many later arrivals entered before each request; shape (n,).

    A request that never ``entered`` overtakes no other; its ``start_ps`` is the end of its wait.
    Inversions are counted by merging requests in order of arrival, in halves of growing width.
    """
    num = len(arrival_ps)
    counts = np.zeros(num, dtype=np.int64)
    by_arrival = np.lexsort((start_ps, arrival_ps))  # equal arrivals do not overtake
    start = start_ps[by_arrival]
    if not (start[1:] < start[:-1]).any():
        return counts
    size = 1 << (num - 1).bit_length()
    order = np.argsort(start, kind="stable")
    ranks = np.arange(size)  # of each place: its rank by start, then arrival; the filling is last
    ranks[order] = np.arange(num)
    overtakes = np.zeros(size, dtype=bool)
    overtakes[:num] = entered[by_arrival][order]
    by_rank = np.zeros(size, dtype=np.int64)
    width = 1
    while width < size:
        ranks = np.sort(ranks.reshape(-1, width), axis=1).ravel()
        halves = ranks.reshape(-1, 2, width)
        early, late = halves[:, 0], halves[:, 1]
        rows = np.arange(len(halves))[:, None] * size
        late_all = (late + rows).ravel()
        before = np.concatenate([[0], np.cumsum(overtakes[late].ravel())])
        found = np.searchsorted(late_all, (early + rows).ravel())
        starts = np.repeat(np.arange(len(halves)) * width, width)
        by_rank[early.ravel()] += before[found] - before[starts]
        width *= 2
    counts[by_arrival[order]] = by_rank[:num]
    return counts
