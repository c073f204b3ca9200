"""Colour on terminals: painted over lines that are complete without it.

A painted line is the plain one with escape codes in it, so columns stay aligned and a pipe gets the
plain text. Painted are labels at the left edge, the states of KV memory, verdicts, warnings and the
best values of a comparison, each found by its form.
"""

from __future__ import annotations

import os
import re
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

_VERDICTS: Final = {"stable": GREEN, "overloaded": RED, "too short": YELLOW}
_WARNINGS: Final = ("PARTIAL", "note")
_LABEL: Final = re.compile(r"^([^\s:]+(?: [^\s:]+)*?)(?=\s{2,}|:| \(|$)")
_STATE: Final = re.compile(rf"^( {{0,2}})({'|'.join(STATE_COLOURS)})(?=\s{{2,}})")
_BEST: Final = re.compile(r"\S+(?: [a-z%]+)?\*(?=\s|$)")
_SKETCH: Final = re.compile("[\u2581-\u2588]{2,}")
_VERDICT: Final = re.compile(rf"\b({'|'.join(_VERDICTS)})\b")


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
    """Print lines, painted where standard output wants colour; escape codes in names do nothing."""
    lines = map(harmless, lines)
    if wants_colour(sys.stdout):
        lines = [painted(line) for line in lines]
    print("\n".join(lines))


def harmless(text: str) -> str:
    """Text whose lines can do nothing to a terminal but be read."""
    return "\n".join(map(printable, text.split("\n")))


def paint(text: str, code: str) -> str:
    """Text in a colour."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else text


def painted(line: str) -> str:
    """Paint one line of a table."""
    line = _SKETCH.sub(lambda blocks: paint(blocks[0], STATE_COLOURS["token"]), line)
    state = _STATE.match(line)
    if state is not None:
        rest = _BEST.sub(lambda best: paint(best[0], f"{BOLD};{GREEN}"), line[state.end() :])
        return state[1] + paint(state[2], STATE_COLOURS[state[2]]) + rest
    label = _LABEL.match(line)
    head = "" if label is None else label[1]
    rest = line[len(head) :]
    if head in _WARNINGS:
        return paint(head, YELLOW) + rest
    if head == "verdict" or _VERDICT.match(rest.lstrip()):
        rest = _VERDICT.sub(lambda word: paint(word[0], _VERDICTS[word[0]]), rest)
    else:
        rest = _BEST.sub(lambda best: paint(best[0], f"{BOLD};{GREEN}"), rest)
    return paint(head, BOLD) + rest
