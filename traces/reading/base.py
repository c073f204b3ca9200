"""What a trace reader is, and the beginning of a file by which readers know their own."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

CSV_METADATA_MARK: Final = "# kvsim-trace "
"""How the first line of kvsim's own CSV begins when it carries metadata."""
_KEY: Final = re.compile(r'"([\w.$ -]+)"\s*:')


class Reader(Protocol):
    """One trace format.

    To add a format: write one file with a class like this, and list an instance of it in
    ``READERS`` of ``kvsim/traces/readers/__init__.py``.
    """

    @property
    def name(self) -> str:
        """What ``--format`` calls it."""
        ...

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        ...

    def detect(self, head: Head) -> bool:
        """Tell, by content alone, whether a file that begins so is of this format."""
        ...

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read the rows that ``intake`` wants; :class:`TraceError` for what cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a file, seen as text, as CSV and as JSON.

    Attributes
    ----------
    data
        The bytes (unpacked).
    text
        The same as text without byte order mark, or ``""`` where the bytes are not text.
    csv_fields
        Names in the first CSV line, or empty.
    json_keys
        Keys of the JSON object in the first line (or of the beginning of it), or empty.
    seen_keys
        All JSON keys in the bytes seen, at any depth; empty where they are not JSON.
    is_list
        Whether they begin a JSON list.
    """

    data: bytes
    text: str
    csv_fields: frozenset[str]
    json_keys: frozenset[str]
    seen_keys: frozenset[str] = frozenset()
    is_list: bool = False

    @classmethod
    def of(cls, data: bytes) -> Head:
        """Look at the first bytes of a file."""
        text = "" if b"\0" in data else data.decode("utf-8-sig", errors="replace").lstrip()
        if text.startswith(("{", "[")):
            seen = frozenset(_KEY.findall(text))
            is_list = text.startswith("[")
            keys = seen if is_list else _json_keys(text, seen)
            return cls(data, text, frozenset(), keys, seen, is_list)
        return cls(data, text, _csv_fields(text), frozenset())

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return self.text.partition("\n")[0].rstrip("\r")


def _csv_fields(text: str) -> frozenset[str]:
    lines = text.splitlines()
    if lines and lines[0].startswith(CSV_METADATA_MARK):
        lines = lines[1:]
    try:
        return frozenset(field.strip() for field in next(csv.reader(lines[:1]), []))
    except csv.Error:
        return frozenset()


def _json_keys(text: str, seen: frozenset[str]) -> frozenset[str]:
    """Keys of the first line's object; of all that is seen where the line is no whole object."""
    try:
        value = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        return seen
    return frozenset(value) if isinstance(value, dict) else frozenset()
