"""Where batches of rows become one trace: bad rows, order, zero of time, receipt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.readers.batch import Ragged
from kvsim.traces.receipt import Receipt, duration
from kvsim.traces.time_grid import time_grid_ns
from kvsim.traces.trace import PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kvsim.traces.readers.batch import Batch
    from kvsim.traces.source import Source

_BATCH_ROWS: Final = 1 << 16
DEFAULTS: Final[Mapping[str, int | str]] = {
    "max_tokens": -1,
    "ends_by": 0,
    "priority": 0,
    "ids": "",
    "session": "",
    "turn": 0,
    "after_request": -1,
    "delay_ns": 0,
    "num_samples": 1,
    "beam_width": 1,
}
"""Optional columns of a trace, and what a row says that says nothing."""


@dataclass(frozen=True, slots=True)
class IdForm:
    """What the prefix ids of a format mean; see :class:`PrefixIds`."""

    block_size: int
    covers_output: bool
    scope: str = "global"


@dataclass(slots=True)
class Intake:
    """Collects the columns of batches and applies what the user asked for.

    A row with a fault stops the read with one sentence, or is left out and counted
    (``skip_bad_rows``). No more than ``limit`` requests are taken, in file order.
    """

    source: Source
    skip_bad_rows: bool = False
    sort: bool = False
    limit: int | None = None
    receipt: Receipt = field(init=False)
    _chunks: list[dict[str, NDArray[Any]]] = field(init=False, default_factory=list)
    _ids: list[Ragged] = field(init=False, default_factory=list)
    _taken: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.receipt = Receipt(str(self.source.path), format="", time_unit="")

    def rows_wanted(self) -> int:
        """Return how many rows the next batch may have; 0 when the trace is full."""
        if self.limit is None:
            return _BATCH_ROWS
        return min(_BATCH_ROWS, self.limit - self._taken)

    def add(
        self, batch: Batch, columns: Mapping[str, NDArray[Any]], ids: Ragged | None = None
    ) -> None:
        """Take the rows without fault.

        ``columns`` are named as in :class:`Trace` and must hold ``arrival_ns``,
        ``prompt_tokens`` and ``output_tokens``.
        """
        for row in sorted(batch.faults):
            reason, detail = batch.faults[row]
            number = int(batch.numbers[row])
            if not self.skip_bad_rows:
                raise self.error(
                    number, f"{detail}; correct the row, or leave such rows out: --on-bad-row skip"
                )
            _count(self.receipt.skipped, reason, 1, number)
        keep = batch.kept()
        chunk = {name: values[keep] for name, values in columns.items()}
        chunk["number"] = batch.numbers[keep]
        chunk["row"] = self.receipt.rows_read + np.flatnonzero(keep)
        self.receipt.rows_read += len(batch)
        self._taken += len(chunk["row"])
        self._chunks.append(chunk)
        if ids is not None:
            self._ids.append(ids.select(keep))

    def clip(self, reason: str, batch: Batch, clipped: NDArray[np.bool_]) -> None:
        """Count rows of a batch of which something was cut."""
        rows = np.flatnonzero(clipped & batch.kept())
        if len(rows):
            _count(self.receipt.clipped, reason, len(rows), int(batch.numbers[rows[0]]))

    def note_ignored(self, names: Iterable[str], known: Iterable[str]) -> None:
        """Say in the receipt which columns of the file were not looked at."""
        known = frozenset(known)
        ignored = [name for name in names if name not in known]
        if ignored:
            self.receipt.notes.append(f"columns not used: {', '.join(ignored)}")

    def error(self, number: int, detail: str) -> TraceError:
        """Make the error that names file, line and detail."""
        return TraceError(f"{self.source.path}: {self.receipt.place} {number}: {detail}")

    def trace(
        self,
        *,
        time_unit: str,
        time_column: str,
        keep_zero: bool = False,
        id_form: IdForm | None = None,
        name: str | None = None,
    ) -> Trace:
        """Put the batches together; ``keep_zero`` leaves times as they are."""
        if not self._taken:
            skipped = self.receipt.rows_read
            why = f"all {skipped:,} rows were skipped" if skipped else "it has no data rows"
            raise TraceError(f"{self.source.path}: the file holds no requests: {why}")
        columns = self._joined()
        arrival_ns = columns["arrival_ns"]
        order = self._order(arrival_ns, columns["number"], time_column)
        if "after_request" in columns:
            columns["after_request"] = self._predecessors(columns, order)
        prefix = self._prefix(order, id_form)
        columns = {key: values[order] for key, values in columns.items()}
        arrival_ns = columns["arrival_ns"]
        if not keep_zero:
            arrival_ns = arrival_ns - arrival_ns[0]
        self._describe(time_unit, arrival_ns, prefix, "max_tokens" in columns)
        return Trace(
            name=self.source.name if name is None else name,
            arrival_ns=arrival_ns,
            prompt_tokens=columns["prompt_tokens"],
            output_tokens=columns["output_tokens"],
            max_tokens=columns.get("max_tokens"),
            ends_by=columns.get("ends_by"),
            priority=columns.get("priority"),
            ids=self._names(columns["ids"], columns["number"]) if "ids" in columns else None,
            session=columns["session"].tolist() if "session" in columns else None,
            turn=columns.get("turn"),
            after_request=columns.get("after_request"),
            delay_ns=columns.get("delay_ns"),
            num_samples=columns.get("num_samples"),
            beam_width=columns.get("beam_width"),
            prefix=prefix,
            sha256=self.source.sha256(),
            receipt=self.receipt,
        )

    def _joined(self) -> dict[str, NDArray[Any]]:
        """Join the chunks of each column; chunks without an optional column say its default."""
        joined = {}
        for name in dict.fromkeys(name for chunk in self._chunks for name in chunk):
            kind = next(chunk[name].dtype for chunk in self._chunks if name in chunk)
            pieces = [
                chunk[name] if name in chunk else np.full(len(chunk["row"]), DEFAULTS[name], kind)
                for chunk in self._chunks
            ]
            joined[name] = np.concatenate(pieces)
        return joined

    def _order(
        self, arrival_ns: NDArray[np.int64], numbers: NDArray[np.int64], time_column: str
    ) -> NDArray[np.int64]:
        back = np.flatnonzero(arrival_ns[1:] < arrival_ns[:-1])
        if not len(back):
            return np.arange(len(arrival_ns))
        if not self.sort:
            row = int(back[0])
            step = duration(int(arrival_ns[row]) - int(arrival_ns[row + 1]))
            raise self.error(
                int(numbers[row + 1]),
                f"{time_column} is {step} before the row above; times must not decrease "
                "(equal ones keep file order): sort them with --sort",
            )
        self.receipt.notes.append(f"sorted by time: {len(back):,} rows were before the row above")
        return np.argsort(arrival_ns, kind="stable")

    def _predecessors(
        self, columns: Mapping[str, NDArray[Any]], order: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Turn row indices of the file into indices of the trace; -1 where the row is left out."""
        after = columns["after_request"]
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        num_rows = self.receipt.rows_read
        by_row = np.full(num_rows + 1, -1, dtype=np.int64)  # the last stands for "not read"
        by_row[columns["row"]] = position
        found = np.where(after >= 0, by_row[np.minimum(after, num_rows)], -1)
        beyond = (after >= num_rows) & (self._taken != self.limit)
        wrong = np.flatnonzero((found >= position) | beyond)
        if len(wrong):
            row = int(wrong[0])
            raise self.error(
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

    def _prefix(self, order: NDArray[np.int64], form: IdForm | None) -> PrefixIds | None:
        if form is None:
            return None
        ragged = Ragged(
            np.concatenate([ids.lengths for ids in self._ids]),
            np.concatenate([ids.flat for ids in self._ids]),
        ).reorder(order)
        offsets = np.zeros(len(order) + 1, dtype=np.int64)
        np.cumsum(ragged.lengths, out=offsets[1:])
        return PrefixIds(form.block_size, offsets, ragged.flat, form.covers_output, form.scope)

    def _names(self, ids: NDArray[Any], numbers: NDArray[np.int64]) -> Sequence[str]:
        """Check that no two requests have one name; nameless ones are named by their index."""
        seen: dict[str, int] = {}
        for index, (given, number) in enumerate(zip(ids.tolist(), numbers.tolist(), strict=True)):
            name = given or f"r{index:04d}"
            if name in seen:
                raise self.error(
                    number,
                    f"id {name!r} is also the id of {self.receipt.place} {seen[name]}; "
                    "each request needs an id of its own",
                )
            seen[name] = number
        return list(seen)

    def _describe(
        self,
        time_unit: str,
        arrival_ns: NDArray[np.int64],
        prefix: PrefixIds | None,
        has_max_tokens: bool,
    ) -> None:
        receipt = self.receipt
        receipt.time_unit = time_unit
        distinct = np.unique(arrival_ns)
        receipt.num_distinct_times = len(distinct)
        receipt.time_grid_ns, jitter_ns = time_grid_ns(distinct)
        if jitter_ns:
            receipt.notes.append(f"times lie up to {duration(jitter_ns)} off their grid")
        if prefix is not None:
            receipt.id_block_size = prefix.block_size
            receipt.id_scope = prefix.scope
            receipt.ids_cover_output = prefix.covers_output
        if self.limit is not None and self._taken == self.limit:
            receipt.notes.append(f"stopped after {self.limit:,} requests (--limit)")
        if not has_max_tokens:
            receipt.notes.append(
                "the trace does not say what clients allowed (max_tokens): the engine is told what "
                "--assume-max-tokens says"
            )


def _count(counts: dict[str, tuple[int, int]], reason: str, count: int, first: int) -> None:
    before, line = counts.get(reason, (0, first))
    counts[reason] = (before + count, line)
