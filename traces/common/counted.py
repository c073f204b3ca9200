"""Counts with their nouns, as people write them: ``1 request``, ``2,000 requests``."""

from __future__ import annotations


def counted(count: int, one: str, several: str | None = None) -> str:
    """``count`` and ``one``, or ``several`` (``None``: ``one`` and an s) where it is not 1."""
    noun = one if count == 1 else several or f"{one}s"
    return f"{count:,} {noun}"
