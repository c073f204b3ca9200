"""Colour on terminals: painted over lines that are complete without it.

Who makes a part of a line says its colour: labels at the left edge, the states of KV memory,
verdicts, warnings, sketches and the best values of a comparison have one. The line is the plain
text, so columns stay aligned and a pipe gets it; escape codes come in when it is printed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from kvsim.traces.common.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

BOLD: Final = "1"
GREEN: Final = "32"
YELLOW: Final = "33"
RED: Final = "31"
STATE_COLOURS: Final = {
    "token": "38;5;32",
    "reserved": "38;5;179",
    "internal": "38;5;166",
    "external": "38;5;161",
    "cached": "38;5;72",
    "free": "38;5;245",
}
"""Codes of the six states of KV memory; told apart by the colour-blind, and by their names."""

SPARKLINE: Final = STATE_COLOURS["token"]
BEST: Final = f"{BOLD};{GREEN}"
VERDICTS: Final = {"stable": GREEN, "overloaded": RED, "too short": YELLOW}
_LABELS: Final = {**STATE_COLOURS, "PARTIAL": YELLOW, "note": YELLOW}


class _Line(str):
    """Text that knows the colours of its parts; what is made of it by other means is plain."""

    spans: tuple[tuple[int, int, str], ...]
    """Start, end and code of each part, in order."""

    def rstrip(self, chars: str | None = None, /) -> str:
        """Text without the blanks at its end, in the same colours."""
        line = _Line(super().rstrip(chars))
        line.spans = self.spans
        return line


def paint(text: str, code: str) -> str:
    """Text in a colour, for lines that are printed with :func:`print_lines`."""
    line = _Line(text)
    line.spans = ((0, len(text), code),) if text and code else ()
    return line


def joined(*parts: str) -> _Line:
    """A line of parts, each of which keeps its colours."""
    line, start = _Line("".join(parts)), 0
    spans: list[tuple[int, int, str]] = []
    for part in parts:
        if isinstance(part, _Line):
            spans += [(start + first, start + end, code) for first, end, code in part.spans]
        start += len(part)
    line.spans = tuple(spans)
    return line


def as_label(text: str) -> str:
    """What names a line: states and warnings in their colours, others bold at the left edge."""
    name = text.strip(" ")
    if not name:
        return text
    before, _, after = text.partition(name)
    return joined(before, paint(name, _LABELS.get(name, "" if before else BOLD)), after)


def wants_colour(stream: TextIO | None) -> bool:
    """Whether to paint what goes to a stream.

    ``NO_COLOR`` (not empty) forbids it, else ``FORCE_COLOR`` (not empty, not 0) asks for it, else a
    terminal that is not ``TERM=dumb`` gets it.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at a stream as it comes."""
    return stream is not None and not stream.closed and stream.isatty()


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; escape codes in names do nothing."""
    print("\n".join(map(shown, lines)))


def shown(line: str) -> str:
    """A line as standard output gets it: in colours where it wants them."""
    text = harmless(line)
    if isinstance(line, _Line) and wants_colour(sys.stdout):
        for start, end, code in reversed(line.spans):  # harmless text is as long as it was
            text = f"{text[:start]}\x1b[{code}m{text[start:end]}\x1b[0m{text[end:]}"
    return text


def harmless(text: str) -> str:
    """Text whose lines can do nothing to a terminal but be read."""
    return "\n".join(map(printable, text.split("\n")))
