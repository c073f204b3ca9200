"""The first difference between a recording and its simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two recordings differ.

    ``fields`` holds (field, recorded, simulated) of all fields that differ there, causes first.
    ``before`` has one short line for each of the records just before it.
    """

    place: str
    fields: list[tuple[str, Any, Any]]
    before: list[str]

    @property
    def field(self) -> str:
        """The first field that differs."""
        return self.fields[0][0]


def differing(
    fields: Iterable[str],
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    if_any: Mapping[str, Any],
) -> list[tuple[str, Any, Any]]:
    """Return (field, recorded, simulated) of the fields that differ, in the order of ``fields``.

    A field that the recorded line does not have is not compared, except those of ``if_any``. A log
    leaves these out if they have the value given there. If the ``type`` differs, no other field is
    compared.
    """
    found = []
    for field in fields:
        if field not in theirs and field not in if_any:
            continue
        their_value = theirs.get(field, if_any.get(field))
        our_value = ours.get(field, if_any.get(field))
        if their_value != our_value:
            found.append((field, their_value, our_value))
            if field == "type":
                break
    return found
