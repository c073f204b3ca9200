"""The receipt: what a reader understood, in numbers and in readable lines."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH: Final = 80
_LABEL: Final = 10
_UNITS: Final = ((86_400_000_000_000, "d"), (3_600_000_000_000, "h"), (1_000_000_000, "s"),
                 (1_000_000, "ms"), (1_000, "us"), (1, "ns"))  # fmt: skip
_COARSE_GRID_NS: Final = 1_000_000
"""From this grid on, ties between arrivals show in latency percentiles."""


@dataclass(slots=True)
class Receipt:
    """What the reader understood: printed to stderr after each read.

    Attributes
    ----------
    rows_read
        Data rows looked at, skipped ones included.
    skipped, clipped, failed
        Reason -> ``(count, first line number)``. Skipped rows are not in the trace; clipped rows
        are, with something cut; failed rows were requests that the source itself calls failed
        (not in the trace).
    place
        What the line numbers count: ``"line"`` of the text, or ``"row"`` (from 1) where a format
        has no lines.
    """

    path: str
    format: str
    time_unit: str
    id_block_size: int | None = None
    id_scope: str | None = None
    ids_cover_output: bool = False
    time_grid_ns: int | None = None
    num_distinct_times: int = 0
    rows_read: int = 0
    skipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    clipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    place: str = "line"

    @property
    def num_requests(self) -> int:
        """Requests that came out: rows read less skipped and failed ones."""
        left_out = (*self.skipped.values(), *self.failed.values())
        return self.rows_read - sum(count for count, _ in left_out)

    def lines(self) -> list[str]:
        """Return the receipt as text, no line longer than 80 columns (long words excepted)."""
        return [line for label, text in self._items() for line in _wrapped(label, text)]

    def _items(self) -> Iterator[tuple[str, str]]:
        yield "trace", f"{self.path} ({self.format})"
        yield "rows", f"{self.rows_read:,} read, {self.num_requests:,} requests"
        for label, reasons in (
            ("skipped", self.skipped),
            ("clipped", self.clipped),
            ("failed", self.failed),
        ):
            for reason, (count, first) in reasons.items():
                yield label, f"{count:,}: {reason} (first: {self.place} {first:,})"
        yield "times", f"in {self.time_unit}; {self._ties()}"
        yield "ids", self._id_text()
        for note in self.notes:
            yield "note", note

    def _ties(self) -> str:
        text = f"{self.num_distinct_times:,} distinct times for {self.num_requests:,} requests"
        if self.time_grid_ns is None:
            return text
        text += f" ({duration(self.time_grid_ns)} grid)"
        tied = self.num_distinct_times < self.num_requests
        if tied and self.time_grid_ns >= _COARSE_GRID_NS:
            text += ": p99 TTFT is shaped by it"
        return text

    def _id_text(self) -> str:
        if self.id_block_size is None:
            return "none: prompts and answers are anonymous (never hit)"
        chain = f"{self.id_block_size} tokens each, scope {self.id_scope}; a prefix is the whole "
        chain += "chain of ids, never an id alone; "
        if self.ids_cover_output:
            return chain + "they cover prompts and answers"
        return chain + "they cover prompts only: answers without ids are anonymous (never hit)"


def duration(nanoseconds: int) -> str:
    """Write a span in its largest unit that gives at most three decimals, e.g. ``3 s``."""
    for unit_ns, unit in _UNITS:
        if nanoseconds >= unit_ns and nanoseconds * 1000 % unit_ns == 0:
            whole, rest = divmod(nanoseconds * 1000 // unit_ns, 1000)
            fraction = f".{rest:03d}".rstrip("0") if rest else ""
            return f"{whole:,}{fraction} {unit}"
    return f"{nanoseconds:,} ns"


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=label.ljust(_LABEL),
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
