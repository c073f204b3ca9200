"""Intake of row batches: bad rows, failed rows, limits, and counts for the receipt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.assemble import Assembly, IdForm
from kvsim.traces.reading.cells import whole_numbers
from kvsim.traces.reading.columns import DEFAULTS
from kvsim.traces.reading.sessions import SessionStarts
from kvsim.traces.reading.wishes import Wishes
from kvsim.traces.trace.receipt import Receipt
from kvsim.traces.trace.trace import Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch, Ragged
    from kvsim.traces.reading.source import Source

__all__ = ["DEFAULTS", "IdForm", "Intake", "Wishes"]

_BATCH_ROWS: Final = 1 << 14


@dataclass(slots=True)
class Intake:
    """Collects the columns of batches and applies the options of the user.

    A row with a fault, or a row that the source marks as failed, either stops the read with one
    sentence, or is skipped and counted. At most ``limit`` requests are read, in file order.
    """

    source: Source
    wishes: Wishes = field(default_factory=Wishes)
    receipt: Receipt = field(init=False)
    starts: SessionStarts = field(init=False)
    _assembly: Assembly = field(init=False)
    _output_name: str = field(init=False, default="output_tokens")

    def __post_init__(self) -> None:
        self.receipt = Receipt(str(self.source.path), format="", time_unit="")
        self.starts = SessionStarts(self.source.path, self.wishes)
        self._assembly = Assembly(self.receipt, self.wishes)

    def rows_wanted(self) -> int:
        """Return the largest number of rows of the next batch; 0 when the trace is full."""
        if self.wishes.limit is None:
            return _BATCH_ROWS
        return min(_BATCH_ROWS, self.wishes.limit - self._assembly.num_rows)

    def need_arrivals(self, what: str) -> None:
        """Raise TraceError if the file has no times and the user gave no arrival law."""
        if self.wishes.arrivals is None and not self.wishes.may_lack_times:
            raise TraceError(
                f"{self.source.path}: {what} has no arrival times: give --rate R (requests per "
                "second, evenly spaced), or --arrivals poisson|gamma(cv=X)|weibull(shape=X) and "
                "--rate R, or run a closed loop with kvsim simulate --users N"
            )

    def output_tokens(self, batch: Batch, name: str) -> NDArray[np.int64]:
        """Return output lengths. 0 is a fault, unless the read is for statistics only.

        If the file has no such column, ``--output-tokens`` gives them.
        """
        if name not in batch.columns:
            return self._drawn_outputs(len(batch), name)
        if self.wishes.outputs is not None:
            raise TraceError(
                f"{self.source.path}: the file has output lengths ({name}); --output-tokens is for "
                "files without them: leave it out"
            )
        values = whole_numbers(batch, name, low=0)
        self._output_name = name
        if not self.wishes.keep_unusable:
            for row in np.flatnonzero((values == 0) & batch.kept()).tolist():
                batch.reject(
                    row,
                    f"{name} is 0: no output",
                    f"{name} is 0; allowed are whole numbers from 1 to 2147483647 (a request "
                    "without output cannot be simulated)",
                )
        return values

    def add(
        self,
        batch: Batch,
        columns: Mapping[str, NDArray[Any]],
        ids: Ragged | None = None,
        also_after: Ragged | None = None,
    ) -> None:
        """Add the rows without a fault.

        ``columns`` are named as in :class:`Trace` and must hold ``prompt_tokens`` and
        ``output_tokens``, and ``arrival_ns`` if the file has times. ``end_ns`` is the time when the
        output ended, by the clock of the file (-1 = not known). ``also_after`` are rows of the
        file, from 0, that a request follows in addition to ``after_request``.
        """
        for row in sorted({*batch.faults, *batch.failed, *batch.left_out}):
            self._leave_out(batch, row)
        keep = batch.kept()
        zeros = np.flatnonzero(keep & (columns["output_tokens"] == 0))
        if len(zeros) and self.receipt.has_outputs:
            reason = f"{self._output_name} is 0: no output"
            _count(self.receipt.unusable, reason, len(zeros), int(batch.numbers[zeros[0]]))
        chunk = {name: values[keep] for name, values in columns.items()}
        rows = self.receipt.rows_read + np.flatnonzero(keep)
        self.receipt.rows_read += len(batch)
        ids, also_after = (
            None if given is None else given.select(keep) for given in (ids, also_after)
        )
        self._assembly.add(chunk, rows, batch.numbers[keep], ids, also_after)

    def _leave_out(self, batch: Batch, row: int) -> None:
        """Count a skipped row, or raise TraceError with its fault."""
        receipt, number = self.receipt, int(batch.numbers[row])
        if row in batch.left_out:
            _count(receipt.skipped, batch.left_out[row], 1, number)
        elif row in batch.failed:
            reason, detail = batch.failed[row]
            if not (self.wishes.skip_bad_rows or self.wishes.keep_unusable):
                raise self.error(number, f"{detail}; skip failed requests with --on-bad-row skip")
            _count(receipt.failed, reason, 1, number)
        else:
            reason, detail = batch.faults[row]
            if not self.wishes.skip_bad_rows:
                raise self.error(
                    number, f"{detail}; correct the row, or skip such rows with --on-bad-row skip"
                )
            _count(receipt.skipped, reason, 1, number)

    def _drawn_outputs(self, count: int, name: str) -> NDArray[np.int64]:
        rule = self.wishes.outputs
        if rule is not None:
            note = f"the file has no {name}: output lengths drawn by --output-tokens {rule}"
            if note not in self.receipt.notes:
                self.receipt.notes.append(note)
            return rule.draw(count, self.wishes.rngs[2])
        if not self.wishes.keep_unusable:
            raise TraceError(
                f"{self.source.path}: column {name!r} is missing: the file has no output lengths; "
                "give --output-tokens N, lognormal(mean=M,sigma=S) or uniform(A,B)"
            )
        self.receipt.has_outputs = False
        return np.zeros(count, dtype=np.int64)

    def clip(self, reason: str, batch: Batch, clipped: NDArray[np.bool_]) -> None:
        """Count rows of a batch from which the reader cut something."""
        rows = np.flatnonzero(clipped & batch.kept())
        if len(rows):
            _count(self.receipt.clipped, reason, len(rows), int(batch.numbers[rows[0]]))

    def note_ignored(self, names: Iterable[str], known: Iterable[str]) -> None:
        """Note in the receipt which columns of the file were not used."""
        known = frozenset(known)
        ignored = [name for name in names if name not in known]
        if ignored:
            self.receipt.notes.append(f"columns not used: {', '.join(ignored)}")

    def note_models(self, counts: Mapping[str, int]) -> None:
        """Note in the receipt that the requests were for several models."""
        if len(counts) > 1:
            named = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:4])
            more = "" if len(counts) <= 4 else f" and {len(counts) - 4} more"
            self.receipt.notes.append(
                f"{len(counts)} models in one file ({named}{more}): one engine simulates them all"
            )

    def error(self, number: int, detail: str) -> TraceError:
        """Return the error that names the file, the line and the detail."""
        return TraceError(f"{self.source.path}: {self.receipt.place} {number}: {detail}")

    def trace(
        self,
        *,
        time_unit: str,
        time_column: str,
        keep_zero: bool = False,
        id_form: IdForm | None = None,
        name: str | None = None,
        epoch: str = "relative",
        by_completion: bool = False,
    ) -> Trace:
        """Assemble the batches into a trace.

        Parameters
        ----------
        keep_zero
            Keep the times unchanged; otherwise the first arrival becomes 0.
        epoch
            Zero of the times: ``"relative"`` (the file's own zero) or ``"unix"``.
        by_completion
            The file has requests in the order of their ends, so it is always sorted by arrival.
        """
        self.starts.check_used()
        trace = self._assembly.trace(
            self.source,
            time_unit=time_unit,
            time_column=time_column,
            keep_zero=keep_zero,
            id_form=id_form,
            name=name,
            epoch=epoch,
            sort=by_completion or self.wishes.sort,
        )
        if self.starts.unknown:
            self.receipt.time_grid_ns = None  # ties between sessions mean nothing
        return trace


def _count(counts: dict[str, tuple[int, int]], reason: str, count: int, first: int) -> None:
    before, line = counts.get(reason, (0, first))
    counts[reason] = (before + count, line)
