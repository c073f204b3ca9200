"""Write the page on JSON documents from the lists of their keys that the schemas are made from.

python -m docs.make_json
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kvsim.sim.documents import Document, document_names, load_document

PAGE: Final = Path(__file__).parent / "json.md"
_FIRST: Final = ("summary", "comparison", "plan")
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
others are always there. An object is listed itself only where it may be `null`. Units: `s`
seconds, `B` bytes, `%` percent, `/s` a second of simulated time, `1` a count or a number without
unit. Definitions and denominators are in [metrics.md](metrics.md), memory in
[memory.md](memory.md).
"""
_TAIL: Final = """## Other files

`--perfetto FILE` writes trace events ([timeline.md](timeline.md)); step-cost profiles are
described in [calibration.md](calibration.md), traces as JSON lines in [traces.md](traces.md).
"""


def page() -> str:
    """Whole text of ``docs/json.md``."""
    names = [*_FIRST, *(name for name in document_names() if name not in _FIRST)]
    return "\n".join([_HEAD, *(_section(load_document(name)) for name in names), _TAIL])


def _section(document: Document) -> str:
    origin = _linked(document.origin)
    lines = [
        f"## {document.title} (`{document.schema}`)\n",
        f"{origin[0].upper() + origin[1:]}. Schema: `kvsim schema {document.name}`.\n",
        "| key | type | unit | meaning |",
        "| --- | --- | --- | --- |",
        f"| `schema` | text | | `{document.schema}` |",
    ]
    for row in document.rows:
        cells = (f"`{row.keys}`", row.type, row.unit, _linked(row.meaning))
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _linked(text: str) -> str:
    return _ELSEWHERE.sub(r"[\1](\1)", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
