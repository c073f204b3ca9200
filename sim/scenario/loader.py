"""Read and write scenarios: TOML files, presets, ``table.key=value``, and their errors.

A preset stands on the defaults of :mod:`kvsim.sim.scenario.tables`; any other file stands on the
preset that its top-level ``preset`` names (default ``DEFAULT_PRESET``). ``"none"`` is how TOML
says ``None``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from kvsim.policies.option_keys import name_of, rule_of, shown
from kvsim.sim.scenario.preset import load_preset, preset_names
from kvsim.sim.scenario.scenario import DEFAULT_PRESET, Scenario
from kvsim.traces.common.arguments import check_kind
from kvsim.traces.common.names import meant, near_names, nearest, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from dataclasses import Field

    from kvsim.policies.option_keys import Rule

_TABLES: Final = {item.name: item for item in fields(Scenario) if item.name != "preset"}
_ELSEWHERE: Final = {
    "num_gpu_blocks": "engine.num_gpu_blocks_override",
    "kv_cache_memory_bytes": "engine.kv_memory",
    "num_blocks": "engine.num_gpu_blocks_override",
}
"""Names that people try, and the key they mean."""
_MAIN_KEYS: Final = ("policy", "kind", "name", "source", "type", "mode", "order")
"""Names for the key that chooses the policy of a table, which comes first in its table."""
_MOST_NAMED: Final = 3


def load_scenario(source: str | Path = DEFAULT_PRESET) -> Scenario:
    """Scenario of a preset name or of a TOML file.

    Raises
    ------
    ValueError
        On a name that is neither, text that is no TOML, an unknown table or key, a wrong value;
        the message is one sentence with place, value and what is allowed.
    OSError
        Where the file cannot be read.
    """
    check_kind("scenario", source, str | Path, "the name of a preset, or the path of a TOML file")
    name = str(source)
    if name in preset_names():
        return replace(_apply(Scenario(), load_preset(name).tables, name), preset=name)
    path = Path(source)
    if not path.exists():
        raise ValueError(
            f"scenario {name!r} is neither a file nor a preset"
            + meant(name, preset_names(), "presets", "see kvsim list presets")
        )
    if path.is_dir():
        raise ValueError(f"scenario {name!r} is a folder; name a TOML file, or a preset")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not TOML: the text is not UTF-8") from None
    return scenario_from_dict(_tables_of(text, name), name)


def scenario_from_dict(tables: dict[str, object], place: str = "scenario") -> Scenario:
    """Scenario of ``{"preset": ..., "engine": {...}, ...}``, the inverse of `scenario_to_dict`.

    Raises
    ------
    ValueError
        As :func:`load_scenario`.
    """
    preset = tables.get("preset", DEFAULT_PRESET)
    if not isinstance(preset, str) or preset not in ("", *preset_names()):
        raise ValueError(f"{place}: {unknown('preset', preset, preset_names())}")
    base = load_scenario(preset) if preset else Scenario()
    return _apply(base, {k: v for k, v in tables.items() if k != "preset"}, place)


def replace_values(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    """Scenario with ``{"table.key": value}`` replaced; ValueError as :func:`load_scenario`."""
    check_kind("values", values, Mapping, "values by key, such as {'engine.block_size': 32}")
    tables: dict[str, object] = {}
    for path, value in values.items():
        check_kind("a key of values", path, str, "text, such as 'engine.block_size'")
        table, dot, name = path.partition(".")
        if not dot:
            raise ValueError(f"{path!r} is not of the form table.key{_did_you_mean(path)}")
        cast("dict[str, object]", tables.setdefault(table, {}))[name] = _plain(value)
    return _apply(scenario, tables, "")


def parse_settings(settings: Iterable[str]) -> dict[str, object]:
    """Values of ``table.key=value`` texts; a value that is no TOML is taken as text.

    Raises
    ------
    ValueError
        Where a text holds no ``=``, or more than one line.
    """
    values: dict[str, object] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            usage = "is not of the form table.key=value, such as engine.max_num_seqs=128"
            raise ValueError(f"--set {shown(setting)} {usage}")
        if len(setting.splitlines()) > 1:
            raise ValueError(f"--set {shown(setting)} has several lines: give --set for each key")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        except ValueError:  # Python reads no integers of thousands of digits
            raise ValueError(f"--set {shown(setting)} has too many digits") from None
        values[path.strip()] = value
    return values


def scenario_to_dict(scenario: Scenario) -> dict[str, object]:
    """Plain dict of all tables as TOML would hold them; ``"none"`` stands for ``None``."""
    tables: dict[str, object] = {"preset": scenario.preset}
    for name in _TABLES:
        table = getattr(scenario, name)
        tables[name] = {name_of(item): _shown(item, table) for item in fields(table)}
    return tables


def scenario_to_toml(scenario: Scenario) -> str:
    """TOML text that :func:`load_scenario` reads back to an equal scenario."""
    lines = [f"preset = {_toml(scenario.preset)}"]
    for name in _TABLES:
        lines += ["", f"[{name}]"]
        table = getattr(scenario, name)
        lines += [f"{name_of(item)} = {_toml(_shown(item, table))}" for item in fields(table)]
    return "\n".join(lines) + "\n"


def _tables_of(text: str, place: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{place}: not TOML: {error}") from None
    except ValueError:  # Python reads no integers of thousands of digits
        raise ValueError(f"{place}: a number in it has too many digits") from None


def _apply(scenario: Scenario, tables: Mapping[str, object], place: str) -> Scenario:
    before = f"{place}: " if place else ""
    changed = {}
    for table_name, content in tables.items():
        if table_name not in _TABLES:
            raise ValueError(f"{before}{unknown('table', table_name, _TABLES)}")
        if not isinstance(content, dict):
            raise ValueError(
                f"{before}{table_name} = {shown(content)} must be a table [{table_name}]"
            )
        table = getattr(scenario, table_name)
        keys = {name_of(item): item for item in fields(table)}
        values = {}
        for name, value in content.items():
            path = f"{table_name}.{name}"
            if name not in keys:
                near = _did_you_mean(name, table_name)
                choices = meant(name, keys, f"keys of [{table_name}]", near=near)
                raise ValueError(f"{before}key {path} is unknown{choices}")
            values[keys[name].name] = _read(keys[name], value, before + path)
        changed[table_name] = replace(table, **values)
    return replace(scenario, **changed)


def _plain(value: object) -> object:
    """A value as TOML would hold it: sweeps take numbers from numpy, scenarios hold tuples."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _read(item: Field[object], value: object, path: str) -> object:
    rule = rule_of(item)
    if rule.optional and value == "none":
        return None
    try:
        return rule.parse(value)
    except ValueError as error:
        more = ", or 'none'" if rule.optional else ""
        hint = _about_value(rule, value) if isinstance(value, str) else ""
        raise ValueError(f"{path} = {shown(value)}{hint}: {error}{more}") from None


def _shown(item: Field[object], table: object) -> object:
    value = getattr(table, item.name)
    return "none" if value is None else rule_of(item).show(value)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value)


def paths_named(name: str) -> list[str]:
    """Return the paths of all keys with this name, such as ``engine.block_size``.

    Names that other tools and earlier versions of engines use are understood, too.
    """
    if name in _ELSEWHERE:
        return [_ELSEWHERE[name]]
    return [path for path in _rules() if name in (path.partition(".")[2], path.replace(".", "_"))]


def _rules() -> dict[str, Rule]:
    """Rules of all keys by their paths."""
    scenario = Scenario()
    return {
        f"{table}.{name_of(item)}": rule_of(item)
        for table in _TABLES
        for item in fields(getattr(scenario, table))
    }


def _did_you_mean(name: str, table: str = "") -> str:
    """Hint to the nearest key: in ``table`` if it is similar, else in another table."""
    own = [path.partition(".")[2] for path in _rules() if path.startswith(f"{table}.")]
    near = [f"{table}.{key}" for key in near_names(name, own, cutoff=0.85)]
    if not near and name in _MAIN_KEYS and own and (own[0] in _MAIN_KEYS or own[0] == "victim"):
        near = [f"{table}.{own[0]}"]
    near = near or paths_named(name.replace("-", "_"))
    near = near or [f"{table}.{key}" for key in near_names(name, own)]
    near = near or near_names(name, _rules())
    return f" (did you mean {' or '.join(map(repr, near[:_MOST_NAMED]))}?)" if near else ""


def _about_value(rule: Rule, value: str) -> str:
    """Hint to the nearest value of the key, or to the keys that accept the value."""
    if near := nearest(value, rule.words):
        return near
    homes = [path for path, other in _rules().items() if value in other.words]
    if not homes:
        return ""
    return f" ({value!r} is a value of {' and '.join(homes[:_MOST_NAMED])})"
