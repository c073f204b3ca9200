"""Receipt of a trace file: what the reader understood, as numbers and as readable lines."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.text import closed, counted, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH: Final = 80
LABEL: Final = 10
_UNITS: Final = ((86_400_000_000_000, "d"), (3_600_000_000_000, "h"), (1_000_000_000, "s"),
                 (1_000_000, "ms"), (1_000, "us"), (1, "ns"))  # fmt: skip
_COARSE_GRID_NS: Final = 1_000_000
"""Ties between arrivals change latency percentiles if the time grid is this coarse or coarser."""


@dataclass(slots=True)
class Receipt:
    """What the reader understood; each command prints it to stderr after a read.

    Attributes
    ----------
    rows_read
        Data rows that were read, including skipped rows.
    epoch
        Time of the first arrival by the clock of the file, in words.
    ids_partial
        Whether the last id of a request can name a partial block. None if no request has ids.
    skipped, clipped, failed, unusable
        Reason -> ``(count, first line number)``. The trace does not contain skipped rows, nor
        failed rows (requests that the source marks as failed). It contains clipped rows, but the
        reader cut something from them. It contains unusable rows for statistics only; they cannot
        be simulated.
    num_timed
        Number of requests that have an arrival time; None = all.
    early_turns
        Turns that arrive before the previous output could have ended: before its recorded end, or,
        if the file has no end, before 1 ms for each of its tokens has passed.
    has_times, has_outputs
        False if the file has none. They are then 0 in the trace, which serves statistics only.
    place
        What the line numbers count: ``"line"`` of the text, or ``"row"`` (from 1) if the format
        has no lines.
    """

    path: str
    format: str
    time_unit: str
    epoch: str | None = None
    id_block_size: int | None = None
    id_scope: str | None = None
    ids_cover_output: bool = False
    ids_partial: bool | None = None
    time_grid_ns: int | None = None
    num_distinct_times: int = 0
    rows_read: int = 0
    skipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    clipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    unusable: dict[str, tuple[int, int]] = field(default_factory=dict)
    num_timed: int | None = None
    early_turns: int = 0
    has_times: bool = True
    has_outputs: bool = True
    notes: list[str] = field(default_factory=list)
    place: str = "line"

    @property
    def num_requests(self) -> int:
        """Number of requests in the trace: rows read minus skipped and failed rows."""
        left_out = (*self.skipped.values(), *self.failed.values())
        return self.rows_read - sum(count for count, _ in left_out)

    def lines(self) -> list[str]:
        """Return the receipt as lines of at most 80 columns (only a long word can exceed them)."""
        return [line for label, text in self._items() for line in _wrapped(label, text)]

    def _items(self) -> Iterator[tuple[str, str]]:
        yield "trace", f"{self.path} ({self.format})"
        yield "rows", f"{self.rows_read:,} read, {counted(self.num_requests, 'request')}"
        for label, reasons in (
            ("skipped", self.skipped),
            ("clipped", self.clipped),
            ("failed", self.failed),
            ("unusable", self.unusable),
        ):
            for reason, (count, first) in reasons.items():
                yield label, f"{count:,}: {reason} (first: {self.place} {first:,})"
        yield "times", self._time_text()
        if self.early_turns:
            yield (
                "turns",
                f"{self.early_turns:,} arrive before the previous output could have ended "
                "(its recorded end, or 1 ms for each token)",
            )
        yield "ids", self._id_text()
        for note in self.notes:
            yield "note", note

    def _time_text(self) -> str:
        if not self.has_times:
            return "none in the file: a simulation needs --rate, --arrivals or --users"
        text = f"in {self.time_unit}; {self._ties()}"
        return text if self.epoch is None else f"{text}; {self.epoch}"

    def _ties(self) -> str:
        count = self.num_requests if self.num_timed is None else self.num_timed
        text = (
            f"{counted(self.num_distinct_times, 'distinct time')} for {counted(count, 'request')}"
        )
        if self.time_grid_ns is None:
            return text
        tied = self.num_distinct_times < count
        if tied and self.time_grid_ns >= _COARSE_GRID_NS:
            text += f": the {duration(self.time_grid_ns)} grid changes p99 TTFT; "
            return text + "--spread-ties spreads equal times"
        return f"{text} ({duration(self.time_grid_ns)} grid)"

    def _id_text(self) -> str:
        if self.id_block_size is None:
            return "none: prompts and outputs are anonymous (they never hit)"
        chain = f"{self.id_block_size} tokens each, scope {self.id_scope}; a prefix is the "
        chain += "whole chain of ids, never one id; "
        if self.ids_partial is not None:
            chain += "the last block can be partial; " if self.ids_partial else "full blocks; "
        if self.ids_cover_output:
            return chain + "they cover prompts and outputs"
        chain += "they cover prompts only: outputs without ids never hit, "
        return chain + "so the hit rate is a lower bound"


def duration(nanoseconds: int) -> str:
    """Return a duration in the largest unit that needs at most three decimals, e.g. ``3 s``."""
    for unit_ns, unit in _UNITS:
        if nanoseconds >= unit_ns and nanoseconds * 1000 % unit_ns == 0:
            whole, rest = divmod(nanoseconds * 1000 // unit_ns, 1000)
            fraction = f".{rest:03d}".rstrip("0") if rest else ""
            return f"{whole:,}{fraction} {unit}"
    return f"{nanoseconds:,} ns"


def _wrapped(label: str, text: str) -> list[str]:
    lines = textwrap.wrap(
        spread(text),
        _WIDTH,
        initial_indent=label.ljust(LABEL),
        subsequent_indent=" " * LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [closed(line) for line in lines]
