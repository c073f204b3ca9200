"""Parts of a trace: by rows, by time, or whole sessions drawn at random."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.batch import Ragged
from kvsim.traces.trace.own_format import TEXTS
from kvsim.traces.trace.trace import MorePredecessors, PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPECIAL: Final = {
    "name",
    "ids",
    *TEXTS,
    "after_request",
    "also_after",
    "prefix",
    "sha256",
    "receipt",
}


def take(trace: Trace, rows: NDArray[np.int64]) -> Trace:
    """Return the requests at ``rows`` (increasing, at least one); their names stay.

    The first arrival becomes zero. A turn whose predecessor is not taken follows nothing any
    more: it arrives at its own time.
    """
    changes: dict[str, Any] = {
        field.name: getattr(trace, field.name)[rows]
        for field in fields(trace)
        if field.name not in _SPECIAL and getattr(trace, field.name) is not None
    }
    changes["arrival_ns"] = changes["arrival_ns"] - changes["arrival_ns"][0]
    changes["ids"] = [trace.request_id(row) for row in rows.tolist()]
    for name in TEXTS:
        if (column := getattr(trace, name)) is not None:
            changes[name] = [column[row] for row in rows.tolist()]
    if trace.after_request is not None:
        place = np.full(len(trace) + 1, -1, dtype=np.int64)  # one more, for -1: none
        place[rows] = np.arange(len(rows))
        before = place[trace.after_request[rows]]
        changes["after_request"] = before
        orphans = (trace.after_request[rows] >= 0) & (before < 0)
        changes["also_after"] = _take_also_after(trace.also_after, rows, place, before)
        if trace.delay_ns is not None:
            changes["delay_ns"] = np.where(orphans, 0, changes["delay_ns"])
        if trace.has_time is not None:
            changes["has_time"] = changes["has_time"] | orphans
    if trace.prefix is not None:
        changes["prefix"] = _take_ids(trace.prefix, rows)
    return replace(trace, sha256="", receipt=None, **changes)


def _take_ids(prefix: PrefixIds, rows: NDArray[np.int64]) -> PrefixIds:
    ids = Ragged(np.diff(prefix.offsets), prefix.ids).reorder(rows)
    return replace(prefix, offsets=ids.offsets(), ids=ids.flat)


def _take_also_after(
    also: MorePredecessors | None,
    rows: NDArray[np.int64],
    place: NDArray[np.int64],
    before: NDArray[np.int64],
) -> MorePredecessors | None:
    """Return the further predecessors of ``rows`` that are taken; orphans have none."""
    if also is None:
        return None
    lists = Ragged(np.diff(also.offsets), also.requests).reorder(rows)
    owners = np.repeat(np.arange(len(rows)), lists.lengths)
    found = place[lists.flat]
    keep = (found >= 0) & (before[owners] >= 0)
    lists = Ragged(np.bincount(owners[keep], minlength=len(rows)), found[keep])
    return MorePredecessors(lists.offsets(), lists.flat) if keep.any() else None


def slice_rows(trace: Trace, first: int, end: int | None) -> Trace:
    """Return the requests from row ``first`` (from 0) to before ``end``."""
    asked = len(trace) if end is None else end
    if not 0 <= first < min(asked, len(trace)):
        raise TraceError(
            f"no request is left: trace {trace.name} has {counted(len(trace), 'request')}, rows "
            f"{first:,} to before {asked:,} were asked for"
        )
    return take(trace, np.arange(first, min(asked, len(trace))))


def slice_time(trace: Trace, first_ns: int, end_ns: int | None) -> Trace:
    """Return the requests that arrive from ``first_ns`` to before ``end_ns``."""
    late = trace.arrival_ns >= first_ns
    if end_ns is not None:
        late &= trace.arrival_ns < end_ns
    rows = np.flatnonzero(late)
    if not len(rows):
        raise TraceError(
            f"no request is left: those of trace {trace.name} arrive from "
            f"{int(trace.arrival_ns[0]) / 1e9:g} s to {int(trace.arrival_ns[-1]) / 1e9:g} s"
        )
    return take(trace, rows)


def sample(trace: Trace, num_requests: int, generator: np.random.Generator) -> Trace:
    """Draw whole sessions, without putting back, until at least ``num_requests`` are there.

    Requests belong together that name the same session or follow one another; all others stand
    alone. The same state of ``generator`` gives the same sample. O(n log n).
    """
    if num_requests < 1:
        raise TraceError(
            f"{num_requests} requests were asked for; allowed are whole numbers from 1"
        )
    group = groups_of(trace)
    sizes = np.bincount(group)
    order = generator.permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), num_requests)) + 1
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[:enough]] = True
    return take(trace, np.flatnonzero(chosen[group]))


def groups_of(trace: Trace) -> NDArray[np.int64]:
    """Return for each request the number of its group, from 0 in order of first appearance."""
    if trace.session is None and trace.after_request is None:
        return np.arange(len(trace))
    leader = list(range(len(trace)))

    def lead(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    if trace.session is not None:
        first: dict[str, int] = {}
        for row, session in enumerate(trace.session):
            if session:
                leader[row] = first.setdefault(session, row)
    if trace.after_request is not None:
        edges = list(enumerate(trace.after_request.tolist()))
        if trace.also_after is not None:
            counts = np.diff(trace.also_after.offsets)
            owners = np.repeat(np.arange(len(trace)), counts).tolist()
            edges += zip(owners, trace.also_after.requests.tolist(), strict=True)
        for row, before in edges:
            if before >= 0:
                one, other = lead(row), lead(before)
                leader[max(one, other)] = min(one, other)
    leads = np.array([lead(row) for row in range(len(trace))], dtype=np.int64)
    return np.unique(leads, return_inverse=True)[1].reshape(-1).astype(np.int64)
