"""Text by the columns of a terminal: letters of Chinese, Japanese and Korean take two.

``spread`` puts a filler behind each wide letter, so that ``len``, padding, cutting and ``textwrap``
count columns; ``closed`` takes the fillers out again, before anybody sees the text.
"""

from __future__ import annotations

import unicodedata
from typing import Final

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
