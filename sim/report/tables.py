"""Tables of a page; a wide table scrolls inside its own box."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kvsim.sim.report.chart import scrollable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Cell = str | tuple[str, bool]
    """A text, or a text and whether it is the best value of its column."""


_MANY: Final = 8
"""Number of columns above which a table is printed in smaller letters."""


def table_html(
    label: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, last_is_words: bool = False
) -> str:
    """Return a table of plain text. The first cell of a row is its name.

    A row with one cell only is the heading of the rows below it. Columns hold numbers and are
    aligned to the right; ``last_is_words`` aligns the last column to the left. A line break in a
    head stays a line break.
    """
    kinds = [("many", len(heads) > _MANY), ("words", last_is_words)]
    names = " ".join(name for name, holds in kinds if holds)
    marked = f' class="{names}"' if names else ""
    top = "".join(f'<th scope="col">{_lines(head)}</th>' for head in heads)
    body = "".join(f"<tr>{_row(row, len(heads))}</tr>\n" for row in rows)
    return scrollable(
        f"<table{marked}>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table>", label
    )


def _row(row: Sequence[Cell], num_columns: int) -> str:
    first, *rest = row
    name = first if isinstance(first, str) else first[0]
    if not rest:
        return f'<th scope="rowgroup" class="group" colspan="{num_columns}">{escape(name)}</th>'
    return f'<th scope="row">{escape(name)}</th>{"".join(map(_cell, rest))}'


def _cell(cell: Cell) -> str:
    text, best = (cell, False) if isinstance(cell, str) else cell
    if best:
        return f'<td class="best">{escape(text)} <span title="best value">*</span></td>'
    return f"<td>{escape(text)}</td>"


def _lines(text: str) -> str:
    return "<br>".join(map(escape, text.split("\n")))
