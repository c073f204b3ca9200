"""Tables of a page: rows down, wide ones scroll inside their own box."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kvsim.sim.report.chart import scrollable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Cell = str | tuple[str, bool]
    """Text, or text and whether it is the best of its column."""


_MANY: Final = 8
"""Columns; more of them are printed in smaller letters."""


def table_html(
    label: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, last_is_words: bool = False
) -> str:
    """A table of plain text whose first column names the rows; a line break in a head breaks it.

    Columns are of numbers, set to the right; ``last_is_words`` sets the last one to the left.
    """
    kinds = [("many", len(heads) > _MANY), ("words", last_is_words)]
    names = " ".join(name for name, holds in kinds if holds)
    marked = f' class="{names}"' if names else ""
    top = "".join(f'<th scope="col">{_lines(head)}</th>' for head in heads)
    body = "".join(f"<tr>{_row(row)}</tr>\n" for row in rows)
    return scrollable(
        f"<table{marked}>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table>", label
    )


def _row(row: Sequence[Cell]) -> str:
    first, *rest = row
    name = first if isinstance(first, str) else first[0]
    return f'<th scope="row">{escape(name)}</th>{"".join(map(_cell, rest))}'


def _cell(cell: Cell) -> str:
    text, best = (cell, False) if isinstance(cell, str) else cell
    if best:
        return f'<td class="best">{escape(text)} <span title="the best">*</span></td>'
    return f"<td>{escape(text)}</td>"


def _lines(text: str) -> str:
    return "<br>".join(map(escape, text.split("\n")))
