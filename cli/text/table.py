"""A small table printer: plain text, aligned columns, 80 wide."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import VERDICTS, as_label, joined, paint
from kvsim.traces.common.text import closed, cut, num_columns, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 80
_WITH_UNIT: Final = re.compile(r"(\d) (s|ms|us|%|GiB|MiB|KiB)(?!\w)")
_WORD: Final = re.compile(r"\S+")
_GLUE: Final = "\u00a0"  # keeps a number and its unit on one line


def table(rows: Sequence[Sequence[str]], *, first_width: int = 24, width: int = WIDTH) -> list[str]:
    """Lines of a table: first column left, the others right-aligned and equally wide.

    Cells that are too long for their column are kept whole (the line grows, nothing is lost).
    """
    num_columns = max((len(row) for row in rows), default=1)
    cell_width = (width - first_width) // max(num_columns - 1, 1)
    lines = []
    for row in rows:
        cells = "".join(cell(text, cell_width) for text in row[1:])
        label = closed(f"{spread(row[0]):<{first_width}}")
        lines.append(joined(as_label(label), cells).rstrip())
    return lines


def cell(text: str, width: int) -> str:
    """Right-aligned text, whole and apart from the one before it even where it is too long."""
    fits = num_columns(text) < width
    return closed(f"{spread(text):>{width}}") if fits else f" {text}"


def wrapped(
    label: str,
    text: str,
    *,
    first_width: int = 24,
    width: int = WIDTH,
    hang: int = 0,
    verdict: str = "",
) -> list[str]:
    """Lines of one labelled sentence, broken at words and indented below its label (+ ``hang``).

    A label that is too long for its column has a line of its own. Of words that no line has room
    for the middle is left out, but for paths, which are copied. ``verdict`` is the one that the
    text begins with.
    """
    room = width - first_width - hang
    label, text = cut(spread(label), width), spread(text)
    if label and text and len(label) >= first_width:
        below = wrapped(
            "", closed(text), first_width=first_width, width=width, hang=hang, verdict=verdict
        )
        return [as_label(closed(label)), *below]
    text = _WORD.sub(lambda word: word[0] if "/" in word[0] else cut(word[0], room), text)
    head = f"{label:<{first_width}}"
    lines = textwrap.wrap(
        _WITH_UNIT.sub(rf"\1{_GLUE}\2", text),
        width,
        initial_indent=head,
        subsequent_indent=" " * (first_width + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not lines:
        return [as_label(closed(label))]
    first, *below = (
        closed(line.replace(_GLUE, " ")) for line in (lines[0][len(head) :], *lines[1:])
    )
    kind = paint(first[: len(verdict)], VERDICTS.get(verdict, ""))
    return [joined(as_label(closed(head)), kind, first[len(verdict) :]), *below]
