"""JSON Schema (draft 2020-12) of a document, made from the list of its keys.

Keys that are not listed are allowed, since new ones may come without a new version; listed ones
must be there unless they are optional. ``unit`` is an annotation of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kvsim.sim.documents.document import Document, Row

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "switch": "boolean",
    "object": "object",
}
_STEP: Final = re.compile(r"\[\]|[^.\[\]]+")


@dataclass(slots=True)
class _Node:
    """A place of the document; ``members`` are of an object, ``item`` is of a list.

    ``members["*"]`` stands for names that come from the run.
    """

    row: Row | None = None
    members: dict[str, _Node] = field(default_factory=dict)
    item: _Node | None = None

    def step(self, name: str) -> _Node:
        """The place one step below, made where there is none."""
        if name == "[]":
            self.item = self.item or _Node()
            return self.item
        return self.members.setdefault(name, _Node())


def json_schema(document: Document, *, closed: bool = False) -> dict[str, Any]:
    """Schema of a document; ``closed`` refuses keys that are not listed."""
    root = _Node()
    for row in document.rows:
        for key in row.expanded():
            node = root
            for name in _STEP.findall(key):
                node = node.step(name)
            assert node.row is None, f"{key} is listed twice in {document.name}"
            node.row = row
    schema = _schema(root, closed=closed)
    schema["properties"] = {"schema": {"const": document.schema}, **schema["properties"]}
    schema["required"].insert(0, "schema")
    return {
        "$schema": DIALECT,
        "$id": "urn:" + document.schema.replace(".", ":").replace("/", ":"),
        "title": document.title,
        "description": document.origin.replace("`", ""),
        **schema,
    }


def _schema(node: _Node, *, closed: bool) -> dict[str, Any]:
    row = node.row
    schema: dict[str, Any]
    if node.item is not None:
        schema = {"type": "array", "items": _schema(node.item, closed=closed)}
    elif node.members:
        named = {name: one for name, one in node.members.items() if name != "*"}
        schema = {
            "type": "object",
            "properties": {name: _schema(one, closed=closed) for name, one in named.items()},
            "required": [name for name, one in named.items() if not (one.row and one.row.optional)],
        }
        if "*" in node.members:
            schema["additionalProperties"] = _schema(node.members["*"], closed=closed)
        elif closed:
            schema["additionalProperties"] = False
    else:
        assert row is not None
        schema = {"type": _TYPES[row.kind]}
        if row.is_list:
            schema = {"type": "array", "items": schema}
    if row is None:
        return schema
    if row.nullable:
        schema["type"] = [schema["type"], "null"]
    if row.unit:
        schema["unit"] = row.unit
    if row.meaning:
        schema["description"] = row.meaning.replace("`", "")
    return schema
