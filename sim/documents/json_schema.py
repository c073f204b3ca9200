"""JSON Schema (draft 2020-12) of a document, made from its dataclasses.

Keys that are not listed are allowed, since new ones may come without a new version; listed ones
must be there unless they are optional. ``unit`` is an annotation of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from kvsim.traces.common.part import Part, keys_of, name_of

if TYPE_CHECKING:
    from kvsim.traces.common.part import Document

LISTS: Final = (list, Sequence)
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}


def json_schema(document: type[Document], *, closed: bool = False) -> dict[str, Any]:
    """Schema of a document; ``closed`` refuses keys that are not listed."""
    schema = _object(document, "", closed=closed)
    schema["properties"] = {"schema": {"const": document.schema}, **schema["properties"]}
    schema["required"].insert(0, "schema")
    return {
        "$schema": DIALECT,
        "$id": "urn:" + document.schema.replace(".", ":").replace("/", ":"),
        "title": document.title,
        "description": document.origin.replace("`", ""),
        **schema,
    }


def without_none(hint: Any) -> tuple[Any, bool]:
    """Type of a key's value where it is not ``None``, and whether it may be."""
    choices = get_args(hint)
    if NoneType not in choices:
        return hint, False
    (kind,) = (one for one in choices if one is not NoneType)
    return kind, True


def value_of(hint: Any) -> Any:
    """Type of the values that a key holds: one, those of a list, or those that it has by name."""
    kind, _ = without_none(hint)
    return value_of(get_args(kind)[-1]) if get_origin(kind) in (*LISTS, dict) else kind


def is_number(hint: Any) -> bool:
    """Whether a key's values are numbers, which have a unit."""
    return value_of(hint) in (int, float)


def _object(part: type[Part], unit: str, *, closed: bool) -> dict[str, Any]:
    """Schema of a part; ``unit`` is of its numbers that have none of their own."""
    properties, required, hints = {}, [], get_type_hints(part)
    for item in keys_of(part):
        name, hint = name_of(item), hints[item.name]
        own = item.metadata["unit"] or unit
        if item.metadata["optional"]:  # there is no key where there is no value
            hint, _ = without_none(hint)
        else:
            required.append(name)
        schema = _value(hint, own, closed=closed)
        if own and is_number(hint):
            schema["unit"] = own
        if item.metadata["meaning"]:
            schema["description"] = item.metadata["meaning"].replace("`", "")
        properties[name] = schema
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return found | {"additionalProperties": False} if closed else found


def _value(hint: Any, unit: str, *, closed: bool) -> dict[str, Any]:
    kind, nullable = without_none(hint)
    if get_origin(kind) in LISTS:
        schema = {"type": "array", "items": _value(get_args(kind)[0], unit, closed=closed)}
    elif get_origin(kind) is dict and get_args(kind)[1] is not object:
        below = _value(get_args(kind)[1], unit, closed=closed)
        schema = {"type": "object", "additionalProperties": below}
    elif get_origin(kind) is dict:
        schema = {"type": "object"}
    elif issubclass(kind, Part):
        schema = _object(kind, unit, closed=closed)
    else:
        schema = {"type": _TYPES[kind]}
    return schema | {"type": [schema["type"], "null"]} if nullable else schema
