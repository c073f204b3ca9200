"""What a stranger's code raised, in words: one line, whatever it was."""

from __future__ import annotations

from typing import Final

RAISED: Final = (Exception, SystemExit)
"""Exceptions of plug-in code that a run turns into a sentence. Ctrl-C is not one of them."""


def raised(error: BaseException) -> str:
    """Kind and message of an exception; one without a message that can be read has none."""
    kind = type(error).__name__
    try:
        words = str(error).split()
    except RAISED:
        words = []
    return f"{kind}: {' '.join(words)}" if words else kind
