"""The bundled presets: rules of a named engine, how they were verified, what that engine lacks.

A preset is a TOML file of scenario tables with one table more, ``[about]``, which no other
scenario file has.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from kvsim.policies.option_keys import name_of, rule_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from kvsim.sim.scenario.scenario import Scenario


_RULES: Final = (
    "batching",
    "allocator",
    "eviction",
    "preemption",
    "queue",
    "predictor",
    "retention",
)
"""Tables of a scenario that say how an engine decides."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Values of a key that an engine does not know, and what it does instead."""

    values: list[object]
    words: str


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset; ``tables`` are its scenario, ``verified`` says how its schedule was checked.

    ``covers``: values of other keys that were checked with it (``"any"``: all of a key's).
    """

    name: str
    engine: str
    verified: str
    tables: Mapping[str, object]
    lacks: Mapping[str, Lack] = field(default_factory=dict)
    covers: Mapping[str, object] = field(default_factory=dict)

    @property
    def prefix(self) -> object:
        """Its ``allocator.prefix``."""
        table = self.tables.get("allocator")
        return table.get("prefix", "auto") if isinstance(table, dict) else "auto"


def preset_names() -> list[str]:
    """Names of the bundled presets, sorted."""
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


@cache
def load_preset(name: str) -> Preset:
    """Preset of a bundled name."""
    tables = tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    about = tables.pop("about")
    lacks = {path: Lack(**lack) for path, lack in about.get("lacks", {}).items()}
    return Preset(name, about["engine"], about["verified"], tables, lacks, about.get("covers", {}))


_READ_ORDERS: Final = ("filo", "mru", "priority")
_RECORDED_ORDERS: Final = ("fifo", "lfu", "lru", "slru")
"""Eviction orders of the radix cache whose operations were recorded."""


def verification(scenario: Scenario) -> str | None:
    """How the schedule of the scenario's preset was verified; ``None`` without a preset.

    Rules that were changed since, to values that were not checked, are named. With another index
    of prefixes than the preset's, the schedules recorded of its engine say nothing.
    """
    if not scenario.preset:
        return None
    preset = load_preset(scenario.preset)
    verified, said = preset.verified, set[str]()
    if scenario.allocator.prefix == "radix" and preset.prefix != "radix":
        cache = _radix_verified(scenario.eviction.policy)
        verified = f"{cache}, scheduler not: it is that of {preset.engine}"
        said = {"allocator.prefix", "eviction.policy"}
    changed = []
    for path, value in _changed_rules(scenario):
        covered = preset.covers.get(path, [])
        known = covered == "any" or (isinstance(covered, list) and value in covered)
        if path not in said and not known:
            changed.append(f"{path} = {value}")
    return f"{verified}; not with {', '.join(changed)}" if changed else verified


def _radix_verified(order: str) -> str:
    """How the radix cache under an eviction order was checked."""
    if order in _RECORDED_ORDERS:
        return "cache verified against recorded logs of SGLang 0.5.23"
    if order in _READ_ORDERS:
        return "cache read from the sources of SGLang 0.5.23"
    return f"cache of SGLang 0.5.23 under an order that it does not have ({order}), not verified"


def _changed_rules(scenario: Scenario) -> list[tuple[str, object]]:
    """Keys of the tables that hold rules whose values are not the preset's."""
    original = scenario.load(scenario.preset)
    changed = []
    for table_name in _RULES:
        ours, theirs = getattr(scenario, table_name), getattr(original, table_name)
        for item in fields(ours):
            value = getattr(ours, item.name)
            if value != getattr(theirs, item.name):
                changed.append((f"{table_name}.{name_of(item)}", rule_of(item).show(value)))
    return changed


def check_known_to_engine(scenario: Scenario) -> None:
    """Refuse what the engine of the scenario's preset does not have.

    Raises
    ------
    ValueError
        With the key, the value and what the engine does instead.
    """
    if not scenario.preset:
        return
    preset = load_preset(scenario.preset)
    for path, lack in preset.lacks.items():
        table, _, name = path.partition(".")
        value = getattr(getattr(scenario, table), name)
        shown = "none" if value is None else value
        if shown in lack.values:
            raise ValueError(
                f"{path} = {str(shown).lower()}: preset {preset.name} stands for {preset.engine}, "
                f"where {lack.words}; choose another preset"
            )


def _folder() -> Traversable:
    return resources.files("kvsim.sim.scenario") / "presets"
