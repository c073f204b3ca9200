"""Assemble batches into one trace: order, predecessors, prefix ids, zero time, receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.columns import Columns, GrowingLists, derive_delays
from kvsim.traces.reading.describe import count_early_turns, describe, epoch_text
from kvsim.traces.reading.drawn import draw_times
from kvsim.traces.reading.row_lines import Places
from kvsim.traces.reading.sessions import Predecessors
from kvsim.traces.trace.own_format import TEXTS
from kvsim.traces.trace.receipt import Receipt, duration
from kvsim.traces.trace.time_grid import gap_blocks
from kvsim.traces.trace.trace import MorePredecessors, PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Ragged
    from kvsim.traces.reading.source import Source
    from kvsim.traces.reading.wishes import Wishes

_LONGEST_GAP_NS: Final = 366 * 86_400 * 10**9
"""A longer gap between two requests means that one file has two epochs or two time units."""


@dataclass(frozen=True, slots=True)
class IdForm:
    """What the prefix ids of a format mean; see :class:`PrefixIds` and ``Receipt.ids_partial``."""

    block_size: int
    covers_output: bool
    scope: str = "global"
    partial: bool | None = None


class Assembly:
    """The requests that were read so far; :meth:`trace` assembles them.

    Facts that need all rows are collected while rows arrive, or block by block at the end. So
    only the columns grow with the file. Sorting needs 16 bytes for each row and one more column.
    """

    def __init__(self, receipt: Receipt, wishes: Wishes) -> None:
        self.receipt = receipt
        self.wishes = wishes
        self._columns = Columns()
        self._places = Places()
        self._ids = GrowingLists()
        self._also_after = GrowingLists()
        self._last_ns = 0
        self._num_back = 0
        self._first_back: tuple[int, int] | None = None  # index, how far back in ns

    @property
    def num_rows(self) -> int:
        """Number of requests that were read so far."""
        return len(self._places)

    def add(
        self,
        chunk: Mapping[str, NDArray[Any]],
        rows: NDArray[np.int64],
        numbers: NDArray[np.int64],
        ids: Ragged | None,
        also_after: Ragged | None = None,
    ) -> None:
        """Add requests: columns of equal length, their rows in the file, and their line numbers."""
        if not len(rows):
            return
        if "arrival_ns" in chunk:
            self._watch_order(chunk["arrival_ns"])
        self._columns.append(chunk, len(rows))
        self._places.append(rows, numbers)
        self._ids.append(ids, len(rows))
        self._also_after.append(also_after, len(rows))

    def _watch_order(self, arrival_ns: NDArray[np.int64]) -> None:
        """Record where arrival times decrease."""
        steps = np.diff(arrival_ns, prepend=self._last_ns if self.num_rows else arrival_ns[0])
        back = np.flatnonzero(steps < 0)
        if len(back) and self._first_back is None:
            self._first_back = self.num_rows + int(back[0]), -int(steps[back[0]])
        self._num_back += len(back)
        self._last_ns = int(arrival_ns[-1])

    def trace(
        self,
        source: Source,
        *,
        time_unit: str,
        time_column: str,
        keep_zero: bool,
        id_form: IdForm | None,
        name: str | None,
        epoch: str,
        sort: bool,
    ) -> Trace:
        """Assemble the chunks; see :meth:`Intake.trace`."""
        self._check_any(source)
        columns = self._columns.taken()
        has_times = "arrival_ns" in columns
        if not has_times:
            columns["arrival_ns"] = np.zeros(self.num_rows, dtype=np.int64)
        order = self._order(columns["arrival_ns"], time_column, sort)
        also_after = None
        if "after_request" in columns:
            also_after = self._follow(columns["after_request"], order)
            if "has_time" in columns:  # without a predecessor: arrives at its earliest time
                columns["has_time"][columns["after_request"] < 0] = 1
        prefix = self._prefix(order, id_form)
        if order is not None:
            for key in columns:
                columns[key] = columns[key][order]
        if has_times and not keep_zero:
            self._check_gaps(columns["arrival_ns"], order, time_column)
        ids = self._names(columns.pop("ids"), order) if "ids" in columns else None
        if "after_request" in columns:
            derive_delays(columns)
            self.receipt.early_turns = count_early_turns(columns)
        arrival_ns = columns["arrival_ns"]
        if has_times and not keep_zero:
            self.receipt.epoch = epoch_text(int(arrival_ns[0]), epoch)
            arrival_ns -= arrival_ns[0]
        arrival_ns, time_unit = draw_times(
            self.receipt, self.wishes, columns, arrival_ns, time_unit, has_times=has_times
        )
        columns["arrival_ns"] = arrival_ns
        describe(self.receipt, self.wishes, time_unit, arrival_ns, prefix, columns)
        if id_form is not None:
            self.receipt.ids_partial = id_form.partial
        user, session = (columns.pop(name, None) for name in TEXTS)
        has_time = columns.pop("has_time", None)
        columns.pop("end_ns", None)
        return Trace(
            name=source.name if name is None else name,
            **columns,
            ids=ids,
            also_after=also_after,
            user=None if user is None else user.tolist(),
            session=None if session is None else session.tolist(),
            has_time=None if has_time is None else has_time.astype(np.bool_),
            prefix=prefix,
            sha256=source.sha256(),
            receipt=self.receipt,
        )

    def _check_any(self, source: Source) -> None:
        """Raise TraceError if the file has no requests."""
        if not self.num_rows:
            skipped = self.receipt.rows_read
            why = f"all {skipped:,} rows were skipped" if skipped else "it has no data rows"
            raise TraceError(f"{source.path}: the file has no requests: {why}")

    def _error(self, index: int, detail: str) -> TraceError:
        """Return the error that names the place of request ``index`` (in file order)."""
        number = self._places.number(index)
        return TraceError(f"{self.receipt.path}: {self.receipt.place} {number}: {detail}")

    def _order(
        self, arrival_ns: NDArray[np.int64], time_column: str, sort: bool
    ) -> NDArray[np.int64] | None:
        """Return the order by time, or None if the file is already sorted by time."""
        if self._first_back is None:
            return None
        if not sort:
            index, step_ns = self._first_back
            raise self._error(
                index,
                f"{time_column} is {duration(step_ns)} earlier than in the row above; times must "
                "not decrease (equal times keep the file order): sort the rows with --sort",
            )
        self.receipt.notes.append(
            f"sorted by time: {counted(self._num_back, 'row was', 'rows were')} earlier than "
            "the row above"
        )
        return np.argsort(arrival_ns, kind="stable")

    def _check_gaps(
        self, arrival_ns: NDArray[np.int64], order: NDArray[np.int64] | None, time_column: str
    ) -> None:
        first = 1
        for gaps in gap_blocks(arrival_ns):
            wide = np.flatnonzero(gaps > _LONGEST_GAP_NS)
            if len(wide):
                index = first + int(wide[0])
                raise self._error(
                    index if order is None else int(order[index]),
                    f"{time_column} is {duration(int(gaps[wide[0]]))} after the previous request: "
                    "the file seems to have two epochs or two time units; split the file there",
                )
            first += len(gaps)

    def _follow(
        self, after: NDArray[np.int64], order: NDArray[np.int64] | None
    ) -> MorePredecessors | None:
        """Turn ``after`` into indices of the trace, in place; return the further predecessors."""
        is_whole = self.num_rows != self.wishes.limit
        num_rows = self.receipt.rows_read if is_whole else None
        predecessors = Predecessors(self._places, order, num_rows, self._error)
        also, num_lost = predecessors.find(after, self._also_after.taken())
        if num_lost:
            self.receipt.notes.append(
                f"{counted(num_lost, 'request follows', 'requests follow')} a row that was "
                "left out, and kvsim ignores this link"
            )
        if also is None:
            return None
        self.receipt.notes.append(
            f"{counted(int(np.count_nonzero(also.lengths)), 'request follows', 'requests follow')} "
            "several outputs: in a closed loop the last of them to end ends the wait"
        )
        if order is not None:
            also = also.reorder(order)
        return MorePredecessors(also.offsets(), also.flat)

    def _prefix(self, order: NDArray[np.int64] | None, form: IdForm | None) -> PrefixIds | None:
        if form is None:
            return None
        ids = self._ids.taken()
        assert ids is not None, "a format with ids has lists of them"
        if order is not None:
            ids = ids.reorder(order)
        return PrefixIds(form.block_size, ids.offsets(), ids.flat, form.covers_output, form.scope)

    def _names(self, ids: NDArray[Any], order: NDArray[np.int64] | None) -> Sequence[str]:
        """Return the names of requests, which must differ; the index names a request without id."""
        seen: dict[str, int] = {}
        for index, given in enumerate(ids):
            name = given or f"r{index:04d}"
            before = seen.setdefault(name, index)
            if before != index:
                one, other = (i if order is None else int(order[i]) for i in (before, index))
                raise self._error(
                    other,
                    f"id {name!r} is also the id of {self.receipt.place} "
                    f"{self._places.number(one)}; each request needs a different id",
                )
        return list(seen)
