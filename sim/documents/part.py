"""How a JSON document is declared: frozen dataclasses whose fields say their unit and meaning.

A :class:`Part` is an object of a document, a :class:`Document` a whole one. Fields in their order
are the keys; those made by :func:`key` are the document's, others are not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, cast, dataclass_transform


def key(
    unit: str = "",
    meaning: str = "",
    *,
    name: str = "",
    optional: bool = False,
    label: str = "",
    better: str = "",
) -> Any:
    """Declare a key.

    Parameters
    ----------
    unit
        Of a number; one without has that of the key whose object it is in.
    meaning
        One line for the page on JSON and the schema.
    name
        In JSON, where that is no name of Python's.
    optional
        The key is absent where the value is ``None``.
    label
        How tables of a comparison call it; those without are not in them.
    better
        ``more`` or ``less``, where one value is better than another.
    """
    return field(
        metadata={
            "unit": unit,
            "meaning": meaning,
            "name": name,
            "optional": optional,
            "label": label,
            "better": better,
        }
    )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key, field))
class Part:
    """An object of a document: its subclasses are frozen dataclasses, made by keyword."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain values by key, for JSON; optional ones without a value are left out."""
        found = ((name_of(item), item, getattr(self, item.name)) for item in keys_of(type(self)))
        return {
            name: _plain(value)
            for name, item, value in found
            if value is not None or not item.metadata["optional"]
        }


class Document(Part):
    """A whole document; ``origin`` says what gives it, ``schema`` is its name and version."""

    title: ClassVar[str]
    schema: ClassVar[str]
    origin: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """As of a part, after the name of the schema."""
        return {"schema": self.schema, **super().to_dict()}


def keys_of(part: type[Part]) -> list[Field[Any]]:
    """Fields of a part that are keys of its document, in order."""
    found = fields(part)  # type: ignore[arg-type]  # subclasses of Part are dataclasses
    return [item for item in found if "meaning" in item.metadata]


def name_of(item: Field[Any]) -> str:
    """Key of a field, as JSON has it."""
    return cast("str", item.metadata["name"]) or item.name


def _plain(value: object) -> object:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
