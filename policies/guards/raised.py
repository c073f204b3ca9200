"""One line of text for an exception that a plug-in raised."""

from __future__ import annotations

from typing import Final

RAISED: Final = (Exception, SystemExit)
"""Exceptions of plug-in code that a run turns into a sentence. Ctrl-C is not one of them."""


def raised(error: BaseException) -> str:
    """Return kind and message of an exception; the message is left out if it cannot be read."""
    kind = type(error).__name__
    try:
        words = str(error).split()
    except RAISED:
        words = []
    return f"{kind}: {' '.join(words)}" if words else kind
