"""A comparison as text, beside published results where there are any, in 80 columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import BEST, VERDICTS, as_label, joined, paint
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
from kvsim.traces.common.text import closed, counted, cut, number, published_number, seconds, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.presets import Published, PublishedTable
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.documents.comparison import DifferenceToLRU


_LABEL: Final = 20
_CELL: Final = 12
_WIDEST_HEADING: Final = 18


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
                text.append(as_label(section))
            cells = line.cells()
            shown = [_cell(*cells[i], width) for i in chosen]
            label = f"  {line.label}" if section else line.label
            text.append(joined(as_label(f"{label:<{_LABEL}}"), *shown).rstrip())
    text += ["", *sketch_lines(rows), ""]
    for row in rows:
        text += wrapped(_short(row.name), row.verdict.text, verdict=row.verdict.kind)
    for difference in differences_to_lru(rows):
        text += wrapped(_short(difference.name), _difference(difference))
    for note in notes_of(comparison):
        text += wrapped("note", note)
    return text


def _cell(text: str, is_best: bool, width: int) -> str:
    """A value of a row, with a column for the star of the best."""
    shown = paint(f"{text}*", BEST) if is_best else joined(paint(text, VERDICTS.get(text, "")), " ")
    return joined(" " * (width - len(shown)), shown)


def sketch_lines(rows: Sequence[Row]) -> list[str]:
    """KV memory in use over time, a line a row."""
    return compared_lines(
        [(_short(row.name), row.kv_in_use.seconds, row.kv_in_use.shares) for row in rows]
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


def _difference(difference: DifferenceToLRU) -> str:
    """Signed differences to LRU in words; those that are undefined are left out."""
    metrics, told = difference.metrics, []
    for label, value, unit in (
        ("hit rate", metrics.hit_percent, " points"),
        ("TTFT p50", metrics.ttft_s_p50, "s"),
        ("TTFT p99", metrics.ttft_s_p99, "s"),
        ("sustained rate", metrics.sustained_requests_per_s, " requests/s"),
        ("goodput", metrics.goodput_requests_per_s, " requests/s"),
    ):
        if value is not None:
            amount = seconds(abs(value)) if unit == "s" else number(abs(value)) + unit
            told.append(f"{label} {'-' if value < 0 else '+'}{amount}")
    against = f"against {_short(difference.against)}, which does not read the future"
    return f"{', '.join(told)} {against}; a difference, no bound"


_NAME: Final = 20
_KIND: Final = 12


def published_lines(comparison: Comparison, published: Published) -> list[str]:
    """Lines of all tables, what they stand on, and where each run's numbers are."""
    text = [*wrapped("beside", published.source), ""]
    for table in published.tables:
        text += [*_table_lines(table), ""]
    text += wrapped("stands on", published.basis)
    runs, total = len(comparison.rows), sum(trace.requests for trace in comparison.traces)
    text += wrapped(
        "runs",
        f"{runs} in all: {runs // len(comparison.traces)} scenarios on {len(comparison.traces)} "
        f"traces of {total:,} requests in sum; the numbers of each: --json, --out",
    )
    return text


def _table_lines(table: PublishedTable) -> list[str]:
    indent = _NAME + _KIND
    lines = [as_label(table.title), (" " * indent + _cells(table.columns)).rstrip()]
    for line in table.lines:
        paper = _cells([published_number(value) for value in line.paper])
        ours = _cells([number(value) for value in line.kvsim])
        lines += [
            joined(as_label(f"{line.name:<{_NAME}}"), f"{'paper':<{_KIND}}{paper}"),
            f"{'':<{_NAME}}{'kvsim':<{_KIND}}{ours}",
        ]
        differences = line.differences()
        if any(value is not None for value in differences):
            shown = _cells(["-" if value is None else f"{value:+.2f}" for value in differences])
            lines.append(f"{'':<{_NAME}}{'difference':<{_KIND}}{shown}")
    return lines


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{_CELL}}" for cell in cells)
