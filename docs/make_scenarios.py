"""Write the pages on scenarios from the tables that the loader reads.

``docs/scenarios.md`` explains scenarios and lists the presets; ``docs/scenario-keys.md`` lists
every key.

python -m docs.make_scenarios
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.catalogue import policies, presets
from kvsim.policies.option_keys import key_of, name_of, rule_of
from kvsim.sim.run.options import RunOptions, flag_of
from kvsim.sim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from dataclasses import Field

    from kvsim.sim.documents.choices import Choice

PAGE: Final = Path(__file__).parent / "scenarios.md"
KEYS_PAGE: Final = Path(__file__).parent / "scenario-keys.md"
_MADE: Final = "<!-- Written by `python -m docs.make_scenarios`. -->"
_HEAD: Final = f'''{_MADE}

# Scenarios

How do I say what kvsim simulates? A scenario holds model, card, engine and policies. It is a
preset, a preset with changes, or a TOML file. A file names a preset (default `vllm-0.32`) and
changes some of its keys. [Scenario keys](scenario-keys.md) lists every key.

```python
from pathlib import Path

from kvsim.sim import Scenario

Path("my-scenario.toml").write_text("""
preset = "vllm-0.32"

[engine]
max_num_seqs = 128
kv_memory = "8GiB"

[slo]
ttft = "2s"
""")
by_file = Scenario.load("my-scenario.toml")
changes = {{"engine.max_num_seqs": 128, "engine.kv_memory": "8GiB", "slo.ttft": "2s"}}
assert by_file == Scenario.load("vllm-0.32").with_values(changes)
```

On the command line, use `--scenario my-scenario.toml`, or `--set` for one key:

```console
$ kvsim simulate traces/data/chat-2k.jsonl.gz --limit 50 --set slo.ttft=2s
...
```

Sizes are bytes or text (`"4GiB"`, `"800MB"`). Times are text (`"50ms"`, `"2s"`). `"none"` means
unset; the meaning of the key says what happens then, otherwise the engine's default for the card
is used. An unknown key, or a value that the key does not take, gives one sentence with the place
and the allowed values. `kvsim compare --vary table.key=a,b,c` simulates each of several values
([Compare](compare.md)).
'''
_KEYS_HEAD: Final = f"""{_MADE}

# Scenario keys

What does a key of a scenario mean, and which values does it take? The text in brackets after a
meaning is the name of the option in the real engine. [Scenarios](scenarios.md) explains how to set
keys.
"""
_ELSEWHERE: Final = re.compile(r"\(docs/([a-z]+\.md)\)")
_ROLE: Final = re.compile(r":[a-z]+:(`[^`]+`)")


def page() -> str:
    """Return the text of ``docs/scenarios.md``."""
    return "\n".join([_HEAD, _presets()])


def keys_page() -> str:
    """Return the text of ``docs/scenario-keys.md``."""
    named = policies()
    tables = (table.name for table in fields(Scenario) if table.name != "preset")
    parts = [_table(name, getattr(Scenario(), name), named) for name in tables]
    return "\n".join([_KEYS_HEAD, *parts, _run_options()])


def _presets() -> str:
    lines = [
        "## Presets\n",
        "| preset | engine | how its schedule was verified |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| `{entry.name}` | {entry.what} | {entry.verified} |"
        for entry in presets()
        if entry.use == "--scenario"
    ]
    return "\n".join(lines) + "\n"


def _run_options() -> str:
    lines = [
        "## Options of a run\n",
        "These options control a run. They are keywords of `simulate` and `compare`, and options "
        "of the commands.\nThe manifest of a run holds them.\n",
        "| keyword | option | unit | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for item in fields(RunOptions):
        default = "unset" if item.default is None else f"`{str(item.default).lower()}`"
        unit, meaning = item.metadata["unit"], item.metadata["meaning"]
        cells = (f"`{item.name}`", f"`{flag_of(item)}`", unit, default, meaning)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table(name: str, table: object, named: list[Choice]) -> str:
    about = _markdown(inspect.getdoc(type(table)) or "").replace(f"`[{name}]`: ", "", 1)
    lines = [
        f"## `[{name}]`\n",
        _ELSEWHERE.sub(r"([\1](\1))", about[0].upper() + about[1:]).strip() + "\n",
        "| key | type | unit | default | allowed | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(item) for item in fields(table)]  # type: ignore[arg-type]
    for item in fields(table):  # type: ignore[arg-type]
        lines += _names(f"{name}.{name_of(item)}", named)
    return "\n".join(lines) + "\n"


def _row(item: Field[object]) -> str:
    rule = rule_of(item)
    allowed = _code(rule.allowed)
    if rule.registry:
        allowed = "a name below" + (", or `module:name`" if "module:name" in allowed else "")
    if rule.optional:
        allowed += ", or `none`"
    told = key_of(item)
    unit = "" if _kind(item) in {"size", "time"} else told.unit  # those are written with theirs
    meaning = f"{told.meaning} ({told.engine})" if told.engine else told.meaning
    cells = (f"`{name_of(item)}`", _kind(item), unit, _default(item), allowed, meaning)
    return f"| {' | '.join(cells)} |"


def _default(item: Field[object]) -> str:
    if item.default is None:
        return "unset"
    shown = rule_of(item).show(item.default)
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


def _kind(item: Field[object]) -> str:
    """What a value is, by the unit in the attribute's name, else by its annotation."""
    if item.name.endswith(("_bytes", "_bytes_per_s")):
        return "size"
    if item.name.endswith("_ps"):
        return "time"
    if "tuple" in str(item.type):
        return "list"
    kinds = {"str": "text", "int": "integer", "float": "number", "bool": "switch"}
    return kinds[str(item.type).split(" | ")[0]]


def _code(allowed: str) -> str:
    return re.sub(r"'([^']*)'", r"`\1`", allowed)


def _markdown(docstring: str) -> str:
    return _ROLE.sub(r"\1", docstring).replace("``", "`")


def _names(key: str, named: list[Choice]) -> list[str]:
    """Policies by name, with the first line of their docstring."""
    rows = []
    for entry in named:
        if entry.use == key:
            oracle = f" ({entry.verified})" if entry.verified else ""
            rows.append(f"| `{entry.name}` | {_markdown(entry.what)}{oracle} |")
    return ["", f"| `{key}` | |", "| --- | --- |", *rows] if rows else []


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    KEYS_PAGE.write_text(keys_page(), encoding="utf-8")
