"""The bundled presets: rules of a named engine, how they were verified, what that engine lacks.

A preset is a TOML file of scenario tables with one table more, ``[about]``, which no other
scenario file has.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from kvsim.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Lack:
    """Values of a key that an engine does not know, and what it does instead."""

    values: list[object]
    words: str


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset; ``tables`` are its scenario, ``verified`` says how its schedule was checked."""

    name: str
    engine: str
    verified: str
    tables: Mapping[str, object]
    lacks: Mapping[str, Lack] = field(default_factory=dict)

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
    return Preset(name, about["engine"], about["verified"], tables, lacks)


_READ_ORDERS: Final = ("filo", "mru", "priority")
_RECORDED_ORDERS: Final = ("fifo", "lfu", "lru", "slru")
"""Eviction orders of the radix cache whose operations were recorded."""


def verification(scenario: Scenario) -> str | None:
    """How the schedule of the scenario's preset was verified; ``None`` without a preset.

    With another index of prefixes than the preset's, the schedules recorded of its engine say
    nothing.
    """
    if not scenario.preset:
        return None
    preset, prefix = load_preset(scenario.preset), scenario.allocator.prefix
    if prefix != "radix" or preset.prefix == "radix":
        return preset.verified
    order = scenario.eviction.policy
    if order in _RECORDED_ORDERS:
        how = "cache verified against recorded logs of SGLang 0.5.23"
    elif order in _READ_ORDERS:
        how = "cache read from the sources of SGLang 0.5.23"
    else:
        how = f"cache of SGLang 0.5.23 under an order that it does not have ({order}), not verified"
    return f"{how}, scheduler not: it is that of {preset.engine}"


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
                f"where {lack.words}; choose a later preset"
            )


def _folder() -> Traversable:
    return resources.files("kvsim.sim") / "presets"
