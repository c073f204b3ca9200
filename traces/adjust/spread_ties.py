"""Requests that a coarse clock put on one tick, spread evenly until the next tick."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.describe import describe_times
from kvsim.traces.trace.columns import check_trace
from kvsim.traces.trace.receipt import duration
from kvsim.traces.trace.time_grid import time_grid_ns

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace


def spread_ties(trace: Trace) -> Trace:
    """Spread equal arrival times over the grid that times lie on; deterministic, order kept.

    Of m requests at time t, the k-th (from 0, file order) arrives at ``t + k * g // m``, where g is
    the grid, or the time to the next distinct arrival where that is shorter. A trace without ties,
    or all of whose requests arrive at once, is returned as it is. ``trace`` is not changed. O(n).
    """
    check_trace(trace)
    times = trace.arrival_ns
    firsts = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    grid_ns, _ = time_grid_ns(times[firsts])
    if grid_ns is None or len(firsts) == len(times):
        return trace
    counts = np.diff(firsts, append=len(times))
    room = np.full(len(firsts), grid_ns, dtype=np.int64)
    room[:-1] = np.minimum(room[:-1], np.diff(times[firsts]))
    places = np.arange(len(times)) - np.repeat(firsts, counts)
    spread = times + places * np.repeat(room, counts) // np.repeat(counts, counts)
    receipt = trace.receipt
    if receipt is not None:
        tied = int(np.count_nonzero(np.repeat(counts, counts) > 1))
        note = (
            f"{counted(tied, 'request')} with equal times spread over {duration(grid_ns)} "
            "(--spread-ties)"
        )
        receipt = replace(receipt, notes=[*receipt.notes, note])
        describe_times(receipt, spread)
    return replace(trace, arrival_ns=spread, receipt=receipt)
