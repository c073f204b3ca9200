"""The receipt: what a reader understood, in numbers and in readable lines."""

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
"""From this grid on, ties between arrivals show in latency percentiles."""


@dataclass(slots=True)
class Receipt:
    """What the reader understood: printed to stderr after each read.

    Attributes
    ----------
    rows_read
        Data rows looked at, skipped ones included.
    epoch
        What the first arrival is in the file's own clock, in words.
    ids_partial
        Whether the last id of a request may stand for a block that is not full; None where no
        request has ids.
    skipped, clipped, failed, unusable
        Reason -> ``(count, first line number)``. Skipped rows are not in the trace; clipped rows
        are, with something cut; failed rows were requests that the source itself calls failed
        (not in the trace); unusable ones were kept for statistics only and cannot be simulated.
    num_timed
        Requests with a time of their own; None = all.
    early_turns
        Turns that arrive before the answer they follow could have ended: before its recorded end,
        or within 1 ms a token where none is recorded.
    has_times, has_outputs
        False where the file says none and they stand at 0 (reading for statistics).
    place
        What the line numbers count: ``"line"`` of the text, or ``"row"`` (from 1) where a format
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
        """Number of requests: rows read minus skipped and failed rows."""
        left_out = (*self.skipped.values(), *self.failed.values())
        return self.rows_read - sum(count for count, _ in left_out)

    def lines(self) -> list[str]:
        """Return the receipt as text, no line longer than 80 columns (long words excepted)."""
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
                f"{self.early_turns:,} arrive before the end of the output that they follow "
                "(the recorded end, or 1 ms for each token)",
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
            text += f": the {duration(self.time_grid_ns)} grid of the times affects p99 TTFT; "
            return text + "--spread-ties spreads equal times"
        return f"{text} ({duration(self.time_grid_ns)} grid)"

    def _id_text(self) -> str:
        if self.id_block_size is None:
            return "none: prompts and outputs are anonymous (never hit)"
        chain = f"{self.id_block_size} tokens each, scope {self.id_scope}; a prefix is the whole "
        chain += "chain of ids, never an id alone; "
        if self.ids_partial is not None:
            chain += "the last may be a partial block; " if self.ids_partial else "full blocks; "
        if self.ids_cover_output:
            return chain + "they cover prompts and outputs"
        chain += "they cover prompts only: outputs without ids are anonymous (never hit), "
        return chain + "so hits are a lower bound"


def duration(nanoseconds: int) -> str:
    """Write a span in its largest unit that gives at most three decimals, e.g. ``3 s``."""
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
