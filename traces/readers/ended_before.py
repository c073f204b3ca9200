"""Which calls a request may have waited for, told by when calls began and ended.

It can have waited for every call that had ended when it began. It is enough to name those that no
other of them can have waited for in turn, which are those that ended after the last of them began::

    a |-----|
    b          |--------|
    c             |---|
    d                      |---      had waited for b and c, and so for a
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Call:
    """A recorded request: what it is known by, begin and end on one clock (None: not known)."""

    index: int
    start: Any
    end: Any


def ended_before(calls: Iterable[Call], start: Any) -> list[Call]:
    """Return the calls that one which begins at ``start`` waited for, the last to end first."""
    ended = [c for c in calls if c.end is not None and c.end <= start and c.start < start]
    if not ended:
        return []
    newest = max(call.start for call in ended)
    last = [call for call in ended if call.end > newest or call.start == newest]
    return sorted(last, key=lambda call: call.end, reverse=True)
