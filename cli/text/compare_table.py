"""A comparison as text: metrics down, scenarios across, in blocks of 80 columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.sparkline import compared_lines
from kvsim.cli.text.table import WIDTH, wrapped
from kvsim.sim.comparison.lines import (
    arrivals_text,
    notes_of,
    pool_text,
    served_text,
    short_name,
    table_lines,
)
from kvsim.sim.comparison.reference import differences_to_lru
from kvsim.traces.common.columns import closed, cut, spread
from kvsim.traces.common.counted import counted
from kvsim.traces.common.readable import number, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.row import Row

_LABEL: Final = 20
_CELL: Final = 12
_WIDEST_HEADING: Final = 18
_TOLD: Final = {
    "hit_percent": ("hit rate", " points"),
    "ttft_s_p50": ("TTFT p50", "s"),
    "ttft_s_p99": ("TTFT p99", "s"),
    "sustained_requests_per_s": ("sustained rate", " requests/s"),
    "goodput_requests_per_s": ("goodput", " requests/s"),
}


def comparison_lines(comparison: Comparison) -> list[str]:
    """Lines of the table."""
    rows, lines = comparison.rows, table_lines(comparison.rows)
    headings = [_heading(spread(row.name)) for row in rows]
    width = max(_CELL, *(len(part) + 1 for heading in headings for part in heading))
    width = min(width, WIDTH - _LABEL)
    text = head_lines(comparison)
    for chosen in _blocks(len(rows), (WIDTH - _LABEL) // width):
        text += ["", *_block([headings[i] for i in chosen], width)]
        section = ""
        for line in lines:
            if line.section != section:
                section = line.section
                text.append(section)
            cells = line.cells()
            shown = "".join(f"{cells[i][0] + ' *'[cells[i][1]]:>{width}}" for i in chosen)
            label = f"  {line.label}" if section else line.label
            text.append(f"{label:<{_LABEL}}{shown}".rstrip())
    text += ["", *sketch_lines(rows), ""]
    for row in rows:
        text += wrapped(_short(row.name), row.verdict["text"])
    for difference in differences_to_lru(rows):
        text += wrapped(_short(difference["name"]), _difference(difference))
    for note in notes_of(comparison):
        text += wrapped("note", note)
    return text


def sketch_lines(rows: Sequence[Row]) -> list[str]:
    """KV memory in use over time, a line a row."""
    return compared_lines(
        [(_short(row.name), row.kv_in_use["seconds"], row.kv_in_use["shares"]) for row in rows]
    )


def head_lines(comparison: Comparison) -> list[str]:
    """What was compared: traces, their rate, what serves them, memory."""
    text = []
    for trace in comparison.traces:
        text += wrapped("trace", f"{trace.name}, {counted(trace.requests, 'request')}")
    text += wrapped("arrivals", arrivals_text(comparison.rows))
    text += wrapped("served by", served_text(comparison.rows))
    return text + wrapped("KV memory", f"{pool_text(comparison.rows)}, * = best of its row")


def _blocks(num_columns: int, most: int) -> list[range]:
    """Columns side by side, as evenly over the blocks as can be."""
    num_blocks = -(-num_columns // most)
    edges = [num_columns * place // num_blocks for place in range(num_blocks + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def _block(headings: Sequence[list[str]], width: int) -> list[str]:
    """Headings above their columns, of as many lines as the longest has."""
    depth = max(map(len, headings))
    lines = []
    for level in range(depth):
        cells = ((heading[level] if level < len(heading) else "") for heading in headings)
        lines.append(" " * _LABEL + "".join(f"{cut(cell, width - 1):>{width}}" for cell in cells))
    return [closed(line.rstrip()) for line in lines]


def _heading(name: str) -> list[str]:
    """Lines of a name: the allocator, then one varied key (without its table) a line, or two."""
    lines = []
    for text in short_name(name).split(", "):
        key, equals, value = text.partition("=")
        lines += [key + equals, value] if equals and len(text) > _WIDEST_HEADING else [text]
    return lines


def _short(name: str) -> str:
    return " ".join(_heading(name)).replace("= ", "=")


def _difference(difference: dict[str, Any]) -> str:
    """Signed differences to LRU in words; those that are undefined are left out."""
    told = []
    for name, (label, unit) in _TOLD.items():
        value = difference["metrics"][name]
        if value is not None:
            amount = seconds(abs(value)) if unit == "s" else number(abs(value)) + unit
            told.append(f"{label} {'-' if value < 0 else '+'}{amount}")
    against = f"against {_short(difference['against'])}, which does not read the future"
    return f"{', '.join(told)} {against}; a difference, no bound"
