"""Values of a JSON file, each of the kind that its key has; what is wrong is told with its place.

All raise ``ValueError``; ``where`` opens the message.
"""

from __future__ import annotations

import math
from typing import cast

from kvsim.traces.common.quantities import LARGEST


def read_object(value: object, where: str) -> dict[str, object]:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object, got {value!r:.60}")
    return cast("dict[str, object]", value)


def read_list(value: object, where: str) -> list[object]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{where}: must be a list, got {value!r:.60}")
    return cast("list[object]", value)


def read_pair(value: object, where: str) -> tuple[float, float]:
    """A list of two numbers."""
    row = read_list(value, where)
    if len(row) != 2:
        raise ValueError(f"{where}: must be two numbers, got {value!r:.60}")
    return read_number(row[0], where), read_number(row[1], where)


def read_number(value: object, where: str) -> float:
    """A number from 0, not infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}={value!r:.60} is not a number")
    if not value >= 0 or value == math.inf:
        raise ValueError(f"{where}={value!r:.60} must be finite and >= 0")
    if value > LARGEST:
        raise ValueError(f"{where}={value!r:.60} is too large; at most {LARGEST} is read")
    return value


def read_factor(value: object, where: str) -> float:
    """A number above 0."""
    factor = read_number(value, where)
    if factor == 0:
        raise ValueError(f"{where}={value!r} must be above 0")
    return factor


def read_whole(value: object, where: str) -> int:
    """A whole number from 0."""
    number = read_number(value, where)
    if number != int(number):
        raise ValueError(f"{where}={value!r} is not a whole number")
    return int(number)


def read_text(value: object, where: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError(f"{where}={value!r:.60} is not a string")
    return value


def read_positive(value: object, where: str) -> int:
    """A whole number from 1."""
    number = read_whole(value, where)
    if number < 1:
        raise ValueError(f"{where}={value!r} must be at least 1")
    return number
