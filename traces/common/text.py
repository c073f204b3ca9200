"""Text as people read it: counts with their nouns, numbers, sizes, times, widths on a terminal.

``1 request``, ``2,000 requests``; letters of Chinese, Japanese and Korean take two columns; what no
terminal or file should meet is escaped.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final


def counted(count: int, one: str, several: str | None = None) -> str:
    """``count`` and ``one``, or ``several`` (``None``: ``one`` and an s) where it is not 1."""
    noun = one if count == 1 else several or f"{one}s"
    return f"{count:,} {noun}"


_FILLER: Final = "\x00"
"""In no name that is shown: ``printable`` takes it out."""
_LEFT_OUT: Final = "..."


def spread(text: str) -> str:
    """Text as many characters long as it has columns; accents become one with their letters."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    return "".join(letter + _FILLER * _is_wide(letter) for letter in text)


def closed(text: str) -> str:
    """Spread text without fillers; half a letter, which a cut leaves at its edge, is a blank."""
    if text.isascii() and _FILLER not in text:
        return text
    letters = list(text)
    for place, letter in enumerate(letters):
        if _is_wide(letter) and letters[place + 1 : place + 2] != [_FILLER]:
            letters[place] = " "
    return "".join(letters).replace(_FILLER, "")


def cut(text: str, width: int) -> str:
    """Spread text of at most ``width`` columns: what is longer is left out in the middle.

    So names that differ at one end only, as those of files do, can still be told apart.
    """
    if len(text) <= width:
        return text
    kept = max(width - len(_LEFT_OUT), 0)
    end = text[len(text) - kept // 2 :]
    if end.startswith(_FILLER):  # half a letter
        end = " " + end[1:]
    return (text[: kept - kept // 2] + _LEFT_OUT + end)[:width]


def shortened(text: str, width: int) -> str:
    """Text of at most ``width`` columns, both ends of which stay."""
    return closed(cut(spread(text), width))


def num_columns(text: str) -> int:
    """Columns that a text takes."""
    return len(spread(text))


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


_ROUNDS_TO_1000: Final = 999.5
_GIB: Final = 2**30
_LEAST: Final = 0.095
"""Smallest amount of a unit that is shown in it."""
_BREAKS: Final = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""What commands a terminal, turns text round, takes no room, or is no text: escape codes, marks of
direction, joiners, fillers, halves of characters."""


def printable(text: str) -> str:
    """One line of text from outside, for a terminal or a picture: it can do nothing but be read."""
    return _UNSEEN.sub("\ufffd", _BREAKS.sub(" ", text))


def storable(texts: list[str]) -> list[str]:
    """Names as tables hold them: halves of characters, which UTF-8 lacks, as Python escapes them.

    Others stay as they are.
    """
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError:
        return [text.encode("utf-8", "backslashreplace").decode("utf-8") for text in texts]
    return texts


def number(value: object, digits: int = 4) -> str:
    """Readable number: ``12,345``, ``0.01234``, ``-`` for ``None``."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        raise TypeError(f"{value!r} is no number")
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}"


def percent(share: float, *limits: float, digits: int = 1) -> str:
    """Percents of a share; one above a limit is rounded up where it would be shown as the limit.

    So ``10.1 %`` may stand for 10.00001, but nothing is told to be over 10 % that reads ``10.0 %``.
    """
    shown = round(100 * share, digits)
    if any(share > limit and shown <= round(100 * limit, digits) for limit in limits):
        shown = round(shown + 10.0**-digits, digits)
    return f"{shown:.{digits}f} %"


def seconds(value: object) -> str:
    """Readable duration of seconds: ``350 us``, ``12.3 ms``, ``4.56 s``, ``1,234 s``."""
    if value is None:
        return "-"
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number of seconds")
    if value == 0:
        return "0 s"
    for scale, unit in ((1e6, "us"), (1e3, "ms")):
        if value * scale < _ROUNDS_TO_1000:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s" if value < _ROUNDS_TO_1000 else f"{value:,.0f} s"


def published_number(value: float | tuple[float, float] | None) -> str:
    """A published number or range."""
    if isinstance(value, tuple):
        return f"{value[0]:g} to {value[1]:g}"
    return "-" if value is None else f"{value:g}"


def amount(num_bytes: float) -> str:
    """Amount in GiB, in MiB or KiB where it is small."""
    for unit, size in (("GiB", _GIB), ("MiB", 2**20)):
        if abs(num_bytes) >= _LEAST * size or not num_bytes:
            return f"{num_bytes / size:,.2f} {unit}"
    return f"{num_bytes / 2**10:,.2f} KiB"
