"""Results beside published ones as text, 80 columns wide: paper, ours, difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.table import wrapped
from kvsim.traces.common.readable import number, published_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.presets import Published, PublishedTable

_NAME: Final = 20
_KIND: Final = 12
_CELL: Final = 12


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
    lines = [table.title, (" " * indent + _cells(table.columns)).rstrip()]
    for line in table.lines:
        paper = _cells([published_number(value) for value in line.paper])
        ours = _cells([number(value) for value in line.kvsim])
        lines += [
            f"{line.name:<{_NAME}}{'paper':<{_KIND}}{paper}",
            f"{'':<{_NAME}}{'kvsim':<{_KIND}}{ours}",
        ]
        differences = line.differences()
        if any(value is not None for value in differences):
            shown = _cells(["-" if value is None else f"{value:+.2f}" for value in differences])
            lines.append(f"{'':<{_NAME}}{'difference':<{_KIND}}{shown}")
    return lines


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{_CELL}}" for cell in cells)
