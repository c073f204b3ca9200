"""A document that was written, read back as its dataclasses."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from kvsim.sim.documents.json_schema import LISTS, without_none
from kvsim.traces.common.part import Part, keys_of, name_of

P = TypeVar("P", bound=Part)


def read_part(part: type[P], values: object, place: str = "") -> P:
    """Make a part of plain values; unknown keys are left alone.

    Raises
    ------
    ValueError
        Where a key is missing or of another kind; it is named, below ``place``.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{place or 'the document'} is no object")
    hints = get_type_hints(part)
    found: dict[str, Any] = {}
    for item in keys_of(part):
        name = name_of(item)
        at = f"{place}.{name}".lstrip(".")
        if name not in values and not item.metadata["optional"]:
            raise ValueError(f"{at} is missing")
        found[item.name] = _read(hints[item.name], values.get(name), at)
    return part(**found)


def _read(hint: Any, value: object, place: str) -> Any:
    kind, nullable = without_none(hint)
    if value is None and nullable:
        return None
    if isinstance(kind, type) and issubclass(kind, Part):
        return read_part(kind, value, place)
    plain = get_origin(kind) or kind
    if plain in LISTS and isinstance(value, list):
        return [_read(get_args(kind)[0], one, f"{place}[]") for one in value]
    if plain is dict and isinstance(value, dict):
        below = get_args(kind)[1]
        whole = below is object
        return value if whole else {at: _read(below, one, place) for at, one in value.items()}
    if (plain is float and type(value) in (int, float)) or plain is type(value):
        return value
    raise ValueError(f"{place} is {value!r}, not of the kind that is written there")
