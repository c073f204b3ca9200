"""Write the page on JSON documents from the dataclasses that results are made of.

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
_FIRST: Final = ("summary", "comparison", "plan")
_TYPES: Final = {str: "text", int: "integer", float: "number", bool: "switch"}
_ELSEWHERE: Final = re.compile(r"docs/([a-z-]+\.md)")
_HEAD: Final = """<!-- Written by `python -m docs.make_json` from `sim/documents`. -->

# JSON: every key, with its type and unit

`kvsim simulate --json` prints what it writes as `summary.json`; `kvsim compare --json` prints
what `--out` writes as `comparison.json`. Every document has `schema`, a name and a number. The
number goes up when a key is renamed, removed or changes its meaning, type or unit; new keys may
come at any time, so read by name and leave unknown ones alone. Numbers are plain (no units
inside, no `NaN`); what is undefined is `null`: a percentile of nothing, goodput without limits.
The same inputs give the same bytes. Standard output holds the document alone; what is said about
reading the trace goes to standard error.

The same as JSON Schema (draft 2020-12), for programs; `kvsim schema` without a name lists them:

```console
$ kvsim schema summary
...
```

In the tables `{a, b}` stands for each of the names, `*` for names that come from the run, `[]`
for the members of a list. A `switch` is `true` or `false`; an `optional` key may be absent, all
others are always there. An object is listed itself only where it may be `null`, or where it says
what is below it. Units: `s` seconds, `B` bytes, `%` percent, `/s` a second of simulated time, `1` a
count or a number without unit. Definitions and denominators are in [metrics.md](metrics.md), memory
in [memory.md](memory.md).
"""
_TAIL: Final = """## Other files

`--perfetto FILE` writes trace events ([timeline.md](timeline.md)); step-cost profiles are
described in [calibration.md](calibration.md), traces as JSON lines in [traces.md](traces.md).
"""


class Row(NamedTuple):
    """A line of a table: keys that are alike, their type, unit and meaning."""

    keys: str
    type: str
    unit: str
    meaning: str


def page() -> str:
    """Whole text of ``docs/json.md``."""
    names = [*_FIRST, *(name for name in document_names() if name not in _FIRST)]
    return "\n".join([_HEAD, *map(_section, names), _TAIL])


def _section(name: str) -> str:
    document = document_of(name)
    origin = _linked(document.origin)
    lines = [
        f"## {document.title} (`{document.schema}`)\n",
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
