"""The list of a document's keys, as a file of this folder has it.

The first line names the document, its schema and what gives it; after an empty one each line is
``keys | type | unit | meaning``. In keys ``{a, b}`` stands for each of the names, ``*`` for names
that come from the run, ``[]`` for the members of a list. An object is listed itself only where it
may be ``null`` or absent. The key ``schema``, which every document has, is not listed.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Final, NamedTuple

_HEAD: Final = re.compile(r"(?P<title>.+) \((?P<schema>kvsim\.[a-z-]+/[0-9]+)\): (?P<origin>.+)")
_TYPE: Final = re.compile(
    r"(?P<list>list of )?(?P<kind>text|integer|number|switch|object)(?P<null> or null)?"
    r"(?P<optional>, optional)?"
)


class Row(NamedTuple):
    """A line of the list: keys that are alike, their type, unit and meaning."""

    keys: str
    type: str
    unit: str
    meaning: str

    def expanded(self) -> list[str]:
        """Each of the keys, without braces."""
        parts = re.split(r"\{(.*?)\}", self.keys)
        choices = [part.split(", ") if place % 2 else [part] for place, part in enumerate(parts)]
        return ["".join(chosen) for chosen in itertools.product(*choices)]

    @property
    def kind(self) -> str:
        """``text``, ``integer``, ``number``, ``switch`` or ``object``; of a list its members."""
        return self._parts()["kind"]

    @property
    def is_list(self) -> bool:
        """Whether it is a list of plain values."""
        return bool(self._parts()["list"])

    @property
    def nullable(self) -> bool:
        """Whether ``null`` stands for what is undefined."""
        return bool(self._parts()["null"])

    @property
    def optional(self) -> bool:
        """Whether the key may be absent."""
        return bool(self._parts()["optional"])

    def _parts(self) -> re.Match[str]:
        found = _TYPE.fullmatch(self.type)
        assert found is not None, f"no type: {self.type!r} of {self.keys}"
        return found


@dataclass(frozen=True, slots=True)
class Document:
    """A kind of document: ``schema`` is its name and version, ``origin`` says what gives it."""

    name: str
    title: str
    schema: str
    origin: str
    rows: tuple[Row, ...]


def document_names() -> list[str]:
    """Names of all kinds of documents."""
    files = resources.files("kvsim.sim.documents").iterdir()
    return sorted(file.name[:-4] for file in files if file.name.endswith(".txt"))


def load_document(name: str) -> Document:
    """One kind of document.

    Raises
    ------
    ValueError
        On a name that is none; it tells those that are.
    """
    if name not in document_names():
        raise ValueError(f"document {name!r} is none of {', '.join(document_names())}")
    text = (resources.files("kvsim.sim.documents") / f"{name}.txt").read_text("utf-8")
    head, _, *lines = text.splitlines()
    found = _HEAD.fullmatch(head)
    assert found is not None, head
    rows = tuple(Row(*(part.strip() for part in line.split("|"))) for line in lines)
    return Document(name, found["title"], found["schema"], found["origin"], rows)
