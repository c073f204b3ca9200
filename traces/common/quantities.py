"""Sizes and durations as people write them: ``12GiB``, ``12GB``, ``2s``, ``50ms``.

Numbers are read as decimal text, so ``0.1s`` is exactly 100,000,000,000 ps. A size without a unit
is in GiB; a duration without a unit is refused, because engines disagree about it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

PS_PER_S: Final = 10**12
PS_PER_US: Final = 10**6
PS_PER_NS: Final = 10**3

_NUMBER: Final = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")

LARGEST: Final = 2**63 - 1
"""What the columns of a run hold: picoseconds (106 days), bytes, tokens."""

_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "": 2**30,
}
_PICOSECONDS: Final = {
    "ps": 1,
    "ns": 10**3,
    "us": 10**6,
    "ms": 10**9,
    "s": 10**12,
    "min": 60 * 10**12,
    "h": 3600 * 10**12,
}


def parse_size_bytes(value: object) -> int:
    """Bytes of ``"12GiB"`` (2**30), ``"12GB"`` (10**9) or a bare number (GiB).

    Rounded to the nearest byte, so that ``51.38GiB`` of a log can be written as it is.

    Raises
    ------
    ValueError
        Where the text is no size.
    """
    allowed = "a size such as 12GiB, 12GB or 512MiB (a bare number is in GiB)"
    return round(_parse(value, _BYTES, allowed, bare=True))


def parse_duration_ps(value: object) -> int:
    """Picoseconds of ``"2s"``, ``"50ms"``, ``"30us"``; the unit must be there, but for 0.

    Raises
    ------
    ValueError
        Where the text is no duration or not a whole number of picoseconds.
    """
    allowed = "a time with its unit, such as 2s, 50ms or 30us"
    scaled = _parse(value, _PICOSECONDS, allowed, bare=False)
    if scaled != int(scaled):
        raise ValueError(f"is finer than the smallest unit: expected {allowed}")
    return int(scaled)


def format_duration(duration_ps: int) -> str:
    """Shortest text that :func:`parse_duration_ps` reads back: ``50ms``."""
    if duration_ps == 0:
        return "0s"
    for unit in ("s", "ms", "us", "ns"):
        if duration_ps % _PICOSECONDS[unit] == 0:
            return f"{duration_ps // _PICOSECONDS[unit]}{unit}"
    return f"{duration_ps}ps"


def format_size(size_bytes: int) -> str:
    """Shortest text that :func:`parse_size_bytes` reads back exactly: ``12GiB``."""
    if size_bytes == 0:
        return "0B"
    for unit, text in (("gib", "GiB"), ("gb", "GB"), ("mib", "MiB"), ("mb", "MB"), ("kib", "KiB")):
        if size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{text}"
    return f"{size_bytes}B"


def _parse(value: object, units: dict[str, int], allowed: str, *, bare: bool) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"expected {allowed}")
    match = _NUMBER.fullmatch(str(value))
    if match is None:
        raise ValueError(f"expected {allowed}")
    number, unit = Decimal(match[1].replace("_", "")), match[2].lower()
    if not unit and not bare:
        if number == 0:
            return number
        raise ValueError(f"has no unit: expected {allowed}")
    if unit not in units:
        raise ValueError(f"expected {allowed}")
    if (scaled := number * units[unit]) > LARGEST:
        raise ValueError(f"is too much: expected {allowed}")
    return scaled
