"""How a JSON document is declared: frozen dataclasses whose fields say their unit and meaning.

A :class:`Part` is an object of a document, a :class:`Document` a whole one. Fields in their order
are the keys; those made by :func:`key` are the document's, others are not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, cast, dataclass_transform


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
    """An object of a document: its subclasses are frozen dataclasses, made by keyword.

    Their methods are here once for all classes: dataclasses would make and compile six for each, at
    every start (45 ms for the documents of a comparison; 5 ms as it is).
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(init=False, repr=False, eq=False)(cls)

    if not TYPE_CHECKING:  # type checkers know the fields of each class by ``dataclass_transform``

        def __init__(self, **values: Any) -> None:
            names = {item.name for item in fields(self)}
            missing, unknown = names - values.keys(), values.keys() - names
            if missing or unknown:
                what = "lacks" if missing else "has no"
                told = ", ".join(sorted(missing or unknown))
                raise TypeError(f"{type(self).__name__} {what} {told}")
            self.__dict__.update(values)

        def __setattr__(self, name: str, value: object) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = (item.name for item in fields(self) if item.compare)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # most hold lists

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
    return [item for item in fields(part) if "meaning" in item.metadata]


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
