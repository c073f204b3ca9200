"""Arguments of functions that people call: of the kind that they must be, or one sentence says so.

Else Python would tell where inside a wrong one broke something, if it broke anything at all:
``audit="no"`` is true, and ``seed=None`` another run each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from types import UnionType


MOST: Final = 2**31 - 1
"""Of counts that are multiplied: the product stays within 64 bits."""


def is_whole(value: object, least: int | None = None, most: int | None = None) -> bool:
    """Whether a value is a whole number, from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return not (least is not None and value < least) and not (most is not None and value > most)


def check_whole(
    name: str,
    value: object,
    least: int | None = None,
    more: str = "",
    *,
    most: int | None = None,
) -> None:
    """Refuse what is no whole number within bounds; ``more`` names what else is allowed."""
    if not is_whole(value, least, most):
        start = "" if least is None else f" from {least}"
        end = "" if most is None else f" up to {most:,}"
        raise wrong(name, value, f"a whole number{start}{end}{more}")


def check_number(name: str, value: object) -> None:
    """Refuse what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise wrong(name, value, "a number")


def check_flags(**flags: object) -> None:
    """Refuse what is neither True nor False, by its name."""
    for name, value in flags.items():
        check_kind(name, value, bool | np.bool_, "True or False")


def check_text(name: str, value: object, example: str) -> None:
    """Refuse what is no text; ``example`` is some that is allowed."""
    check_kind(name, value, str, f"text, such as {example!r}")


def check_path(name: str, value: object) -> None:
    """Refuse what is no path."""
    check_kind(name, value, str | Path, "a path")


def check_call(name: str, value: object, signature: str) -> None:
    """Refuse what is neither None nor can be called."""
    if value is not None and not callable(value):
        raise wrong(name, value, f"None, or what is called with {signature}")


def check_kind(name: str, value: object, kind: type | UnionType, what: str) -> None:
    """Refuse what is of another kind than ``what`` says in words."""
    if not isinstance(value, kind):
        raise wrong(name, value, what)


def wrong(name: str, value: object, what: str) -> ValueError:
    """Error that shows a value, on one line, and says what it must be."""
    shown = " ".join(f"{value!r:.200}".split())
    return ValueError(f"{name} is {shown:.60}; it must be {what}")
