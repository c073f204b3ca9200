"""Chunks of columns become one trace: order, predecessors, prefix ids, zero of time, receipt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.readers.batch import Ragged
from kvsim.traces.readers.columns import derive_delays, joined
from kvsim.traces.readers.describe import count_early_turns, describe, epoch_text
from kvsim.traces.readers.drawn_times import draw_times
from kvsim.traces.receipt import Receipt, duration
from kvsim.traces.trace import PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kvsim.traces.readers.wishes import Wishes
    from kvsim.traces.source import Source

_LONGEST_GAP_NS: Final = 366 * 86_400 * 10**9
"""A gap between two requests beyond this means two epochs or units in one file."""
_MERGED: Final = 64


@dataclass(frozen=True, slots=True)
class IdForm:
    """What the prefix ids of a format mean; see :class:`PrefixIds` and ``Receipt.ids_partial``."""

    block_size: int
    covers_output: bool
    scope: str = "global"
    partial: bool | None = None


@dataclass(slots=True)
class Assembly:
    """The chunks taken so far; :meth:`trace` joins them and lets go of each as it is joined."""

    receipt: Receipt
    wishes: Wishes
    num_rows: int = field(init=False, default=0)
    _chunks: list[dict[str, NDArray[Any]]] = field(init=False, default_factory=list)
    _recent: list[dict[str, NDArray[Any]]] = field(init=False, default_factory=list)
    _ids: list[Ragged] = field(init=False, default_factory=list)

    def add(self, chunk: dict[str, NDArray[Any]], ids: Ragged | None) -> None:
        """Take one chunk: columns of equal length, ``number`` and ``row`` among them."""
        self.num_rows += len(chunk["row"])
        self._recent.append(chunk)
        if len(self._recent) == _MERGED:  # big arrays go back to the system when they are freed
            self._chunks.append(joined(self._recent, widen=False))
            self._recent.clear()
        if ids is not None:
            self._ids.append(ids)

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
        """Put the chunks together; see :meth:`Intake.trace`."""
        if not self.num_rows:
            skipped = self.receipt.rows_read
            why = f"all {skipped:,} rows were skipped" if skipped else "it has no data rows"
            raise TraceError(f"{source.path}: the file holds no requests: {why}")
        columns = joined([*self._chunks, *self._recent], widen=True)
        self._chunks.clear()
        self._recent.clear()
        has_times = "arrival_ns" in columns
        if not has_times:
            columns["arrival_ns"] = np.zeros(self.num_rows, dtype=np.int64)
        order = self._order(columns, time_column, sort)
        if has_times and not keep_zero:
            self._check_gaps(columns, order, time_column)
        if "after_request" in columns:
            columns["after_request"] = self._predecessors(columns, order)
        prefix = self._prefix(order, id_form)
        if order is not None:
            for key in columns:
                columns[key] = columns[key][order]
        ids = self._names(columns["ids"], columns["number"]) if "ids" in columns else None
        for key in ("row", "number", "ids"):
            columns.pop(key, None)
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
        session = columns.pop("session", None)
        has_time = columns.pop("has_time", None)
        columns.pop("end_ns", None)
        return Trace(
            name=source.name if name is None else name,
            **columns,
            ids=ids,
            session=None if session is None else session.tolist(),
            has_time=None if has_time is None else has_time.astype(np.bool_),
            prefix=prefix,
            sha256=source.sha256(),
            receipt=self.receipt,
        )

    def _error(self, number: int, detail: str) -> TraceError:
        return TraceError(f"{self.receipt.path}: {self.receipt.place} {number}: {detail}")

    def _order(
        self, columns: Mapping[str, NDArray[Any]], time_column: str, sort: bool
    ) -> NDArray[np.int64] | None:
        """Return the order by time, or None where the file's order is that already."""
        arrival_ns = columns["arrival_ns"]
        back = np.flatnonzero(arrival_ns[1:] < arrival_ns[:-1])
        if not len(back):
            return None
        if not sort:
            row = int(back[0])
            step = duration(int(arrival_ns[row]) - int(arrival_ns[row + 1]))
            raise self._error(
                int(columns["number"][row + 1]),
                f"{time_column} is {step} before the row above; times must not decrease "
                "(equal ones keep file order): sort them with --sort",
            )
        self.receipt.notes.append(f"sorted by time: {len(back):,} rows were before the row above")
        return np.argsort(arrival_ns, kind="stable")

    def _check_gaps(
        self,
        columns: Mapping[str, NDArray[Any]],
        order: NDArray[np.int64] | None,
        time_column: str,
    ) -> None:
        arrival_ns = columns["arrival_ns"]
        times = arrival_ns if order is None else arrival_ns[order]
        wide = np.flatnonzero(np.diff(times) > _LONGEST_GAP_NS)
        if len(wide):
            row = int(wide[0]) + 1 if order is None else int(order[int(wide[0]) + 1])
            gap = duration(int(times[wide[0] + 1]) - int(times[wide[0]]))
            raise self._error(
                int(columns["number"][row]),
                f"{time_column} is {gap} after the request before it: this looks like two epochs "
                "or units of time in one file; cut the file there",
            )

    def _predecessors(
        self, columns: Mapping[str, NDArray[Any]], order: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Turn row indices of the file into indices of the trace; -1 where the row is left out."""
        after = columns["after_request"]
        position = np.arange(self.num_rows, dtype=np.int64)
        if order is not None:
            position[order] = np.arange(self.num_rows)
        num_rows = self.receipt.rows_read
        by_row = np.full(num_rows + 1, -1, dtype=np.int64)  # the last stands for "not read"
        by_row[columns["row"]] = position
        found = np.where(after >= 0, by_row[np.minimum(after, num_rows)], -1)
        beyond = (after >= num_rows) & (self.num_rows != self.wishes.limit)
        wrong = np.flatnonzero((found >= position) | beyond)
        if len(wrong):
            row = int(wrong[0])
            raise self._error(
                int(columns["number"][row]),
                f"after_request is {int(after[row])}, which is no earlier request; allowed are "
                "-1 (none) and the index (from 0) of a row that arrives before this one",
            )
        lost = int(np.count_nonzero((after >= 0) & (found < 0)))
        if lost:
            self.receipt.notes.append(
                f"{lost:,} requests follow a row that was left out: they wait for none"
            )
        return found

    def _prefix(self, order: NDArray[np.int64] | None, form: IdForm | None) -> PrefixIds | None:
        if form is None:
            return None
        ragged = Ragged(
            np.concatenate([ids.lengths for ids in self._ids]),
            np.concatenate([ids.flat for ids in self._ids]),
        )
        self._ids.clear()
        if order is not None:
            ragged = ragged.reorder(order)
        offsets = np.zeros(self.num_rows + 1, dtype=np.int64)
        np.cumsum(ragged.lengths, out=offsets[1:])
        return PrefixIds(form.block_size, offsets, ragged.flat, form.covers_output, form.scope)

    def _names(self, ids: NDArray[Any], numbers: NDArray[np.int64]) -> Sequence[str]:
        """Check that no two requests have one name; nameless ones are named by their index."""
        seen: dict[str, int] = {}
        for index, (given, number) in enumerate(zip(ids.tolist(), numbers.tolist(), strict=True)):
            name = given or f"r{index:04d}"
            if name in seen:
                raise self._error(
                    number,
                    f"id {name!r} is also the id of {self.receipt.place} {seen[name]}; "
                    "each request needs an id of its own",
                )
            seen[name] = number
        return list(seen)
