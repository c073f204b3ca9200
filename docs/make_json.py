"""Write the pages on JSON documents from the dataclasses of ``sim/documents``.

``docs/json.md`` is written by hand but for its list of documents; ``docs/json-keys.md`` lists
every key.

python -m docs.make_json
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args, get_origin, get_type_hints

from kvsim.sim.documents import document_names, document_of
from kvsim.sim.documents.json_schema import LISTS, is_number, value_of, without_none
from kvsim.traces.common.part import Part, keys_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import Field

PAGE: Final = Path(__file__).parent / "json.md"
KEYS_PAGE: Final = Path(__file__).parent / "json-keys.md"
_FIRST: Final = ("summary", "comparison", "plan")
_TYPES: Final = {str: "text", int: "integer", float: "number", bool: "switch"}
_ELSEWHERE: Final = re.compile(r"docs/([a-z-]+\.md)")
_MADE: Final = "<!-- Written by `python -m docs.make_json` from `sim/documents`. -->"
_HEAD: Final = f"""{_MADE}

# JSON documents

Which JSON documents does kvsim write, and how do I read them in a program? `--json` prints a
document instead of a table. `kvsim schema` prints the JSON Schema (draft 2020-12) of a document:

```console
$ kvsim schema summary
...
```

[JSON keys](json-keys.md) lists every key with type, unit and meaning. [Metrics](metrics.md) has
definitions and denominators.
"""
_TAIL: Final = """
These rules hold for all documents:

- Every document has `schema`, a name and a number. The number increases when a key is renamed or
  removed, or changes its meaning, type or unit. New keys can be added without a new number, so
  read keys by name and ignore unknown ones.
- Numbers are plain numbers, without units and without `NaN`. An undefined value is `null`, for
  example a percentile of no requests, or goodput without limits.
- The same inputs give the same bytes.
- Standard output contains only the document. The receipt of the trace goes to standard error.

Other files: `--perfetto FILE` writes trace events ([Timelines](timeline.md)).
[Calibration](calibration.md) describes profiles of step costs, and [Traces](traces.md) describes
traces as JSON lines.
"""
_KEYS_HEAD: Final = f"""{_MADE}

# JSON keys

What is the type, unit and meaning of a key? This page lists every key of every document
([JSON documents](json.md)).

In the tables `{{a, b}}` stands for each of the names, `*` for names that come from the run, and
`[]` for the items of a list. A `switch` is `true` or `false`. An `optional` key can be absent; all
others are always present. An object has a row only if it can be `null`, or if the row explains the
keys below it. Units: `s` seconds, `B` bytes, `%` percent, `/s` per second of simulated time, `1` a
count or a number without unit.
"""


class Row(NamedTuple):
    """A line of a table: keys that are alike, their type, unit and meaning."""

    keys: str
    type: str
    unit: str
    meaning: str


def page() -> str:
    """Return the text of ``docs/json.md``."""
    lines = ["| document | schema | where |", "| --- | --- | --- |"]
    for name in _names():
        document = document_of(name)
        link = f"[{document.title}](json-keys.md#{name})"
        lines.append(f"| {link} | `{document.schema}` | {_linked(document.origin)} |")
    return "\n".join([_HEAD, *lines, _TAIL])


def keys_page() -> str:
    """Return the text of ``docs/json-keys.md``."""
    return "\n".join([_KEYS_HEAD, *map(_section, _names())])


def _names() -> list[str]:
    return [*_FIRST, *(name for name in document_names() if name not in _FIRST)]


def _section(name: str) -> str:
    document = document_of(name)
    origin = _linked(document.origin)
    lines = [
        f"## {document.title} {{#{name}}}\n",
        f"{origin[0].upper() + origin[1:]}. Schema: `kvsim schema {name}`.\n",
        "| key | type | unit | meaning |",
        "| --- | --- | --- | --- |",
        f"| `schema` | text | | `{document.schema}` |",
    ]
    for row in rows(document):
        cells = (f"`{row.keys}`", row.type, row.unit, _linked(row.meaning))
        lines.append(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|")
    return "\n".join(lines) + "\n"


def rows(part: type[Part], prefix: str = "", unit: str = "") -> Iterator[Row]:
    """Keys of a part below ``prefix``, neighbours that are alike in one line.

    Objects of one kind have a line each for what they mean, then one for each of their keys.
    """
    hints = get_type_hints(part)

    def alike(item: Field[Any]) -> tuple[Any, ...]:
        told = item.metadata
        meaning = None if _is_part(hints[item.name]) else told["meaning"]
        return hints[item.name], told["unit"], told["optional"], meaning

    for (hint, own, optional, _), group in groupby(keys_of(part), alike):
        items = [*group]
        keys = prefix + _braced([name_of(item) for item in items])
        below = own or unit
        if not _is_part(hint):
            shown = below if is_number(hint) else ""
            yield Row(keys + _steps(hint), _words(hint, optional), shown, _meaning(items[0]))
            continue
        for meaning, some in groupby(items, _meaning):
            if meaning or optional or without_none(hint)[1]:
                names = prefix + _braced([name_of(item) for item in some])
                yield Row(names, _words(hint, optional), own, meaning)
        yield from rows(value_of(hint), f"{keys}{_steps(hint)}.", below)


def _is_part(hint: Any) -> bool:
    return isinstance(value_of(hint), type) and issubclass(value_of(hint), Part)


def _meaning(item: Field[Any]) -> str:
    return cast("str", item.metadata["meaning"])


def _braced(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _steps(hint: Any) -> str:
    """What leads from a key to the values that have a line: members of lists, any names."""
    kind, _ = without_none(hint)
    if get_origin(kind) is dict and value_of(kind) is not object:
        return ".*" + _steps(get_args(kind)[1])
    return "[]" + _steps(get_args(kind)[0]) if get_origin(kind) in LISTS and _is_part(kind) else ""


def _words(hint: Any, optional: bool) -> str:
    """Type of a line in words."""
    kind, nullable = without_none(hint)
    while get_origin(kind) is dict and value_of(kind) is not object and not _is_part(kind):
        kind = get_args(kind)[1]
    words = _TYPES.get(value_of(kind), "object")
    if get_origin(kind) in LISTS:
        words = f"list of {words}"
    null = " or null" if nullable and not optional else ""
    return f"{words}{null}{', optional' if optional else ''}"


def _linked(text: str) -> str:
    return _ELSEWHERE.sub(r"[\1](\1)", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    KEYS_PAGE.write_text(keys_page(), encoding="utf-8")
