"""The scenarios of a comparison: presets and aliases, varied keys, equal memory for KV."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.scenario.loader import load_scenario, parse_settings
from kvsim.sim.scenario.preset import preset_names
from kvsim.sim.scenario.scenario import DEFAULT_PRESET, Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.common.arguments import check_text
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MOST_RUNS: Final = 1000
"""Of varied keys; more is a typing error, or a sweep for a script."""


class Alias(NamedTuple):
    """``DEFAULT_PRESET`` with a few keys changed."""

    what: str
    values: dict[str, object]


ALIASES: Final = {
    "paged": Alias("vllm-0.32 with prefix caching off", {"engine.enable_prefix_caching": False}),
    "prefix": Alias("vllm-0.32: paged, with full blocks shared by hash", {}),
    "radix": Alias("vllm-0.32 with prefixes in SGLang's radix tree", {"allocator.prefix": "radix"}),
}
"""What ``--allocators`` takes beside presets; one line a name."""


def allocator_scenarios(text: str) -> dict[str, Scenario]:
    """Scenarios of ``--allocators``, by name.

    Raises
    ------
    ValueError
        On a name that is neither a preset nor an alias, or one given twice.
    """
    check_text("--allocators", text, "paged,prefix")
    scenarios: dict[str, Scenario] = {}
    for name in (part.strip() for part in text.split(",")):
        if name in scenarios:
            raise ValueError(f"--allocators names {name!r} twice")
        scenarios[name] = _scenario_of(name)
    return scenarios


def _scenario_of(name: str) -> Scenario:
    if name in ALIASES:
        return load_scenario(DEFAULT_PRESET).with_values(ALIASES[name].values)
    if name not in preset_names():
        raise ValueError(unknown("--allocators:", name, (*ALIASES, *preset_names())))
    return load_scenario(name)


def varied_values(texts: Sequence[str]) -> dict[str, dict[str, object]]:
    """Cartesian product of ``key=a,b,c`` texts: the values of each combination, by its name.

    Raises
    ------
    ValueError
        On a text of another form, a key or value given twice, or too many combinations.
    """
    axes: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        choices = [value.strip() for value in re.split(r",(?![^\[]*\])", values)]
        if not equals or "." not in key or not all(choices) or len(text.splitlines()) > 1:
            raise ValueError(f"--vary {text!r} is not of the form table.key=a,b,c")
        if key.strip() in axes or len(set(choices)) < len(choices):
            raise ValueError(f"--vary {text!r} names a key or a value twice")
        axes[key.strip()] = choices
    num_combinations = math.prod(map(len, axes.values()))
    if num_combinations > MOST_RUNS:
        raise ValueError(
            f"--vary makes {num_combinations:,} combinations; at most {MOST_RUNS:,} are run at once"
        )
    combinations = {}
    for chosen in itertools.product(*axes.values()):
        settings = [f"{key}={value}" for key, value in zip(axes, chosen, strict=True)]
        combinations[", ".join(settings)] = parse_settings(settings)
    return combinations


def compared(
    bases: Mapping[str, Scenario], combinations: Mapping[str, Mapping[str, object]]
) -> dict[str, Scenario]:
    """Scenarios of all bases under all combinations; bases of one combination share a pool size.

    Raises
    ------
    ValueError
        Where a scenario cannot be set up; it is named.
    """
    scenarios: dict[str, Scenario] = {}
    for combination, values in combinations.items():
        group = {
            ", ".join(filter(None, (base, combination))): scenario.with_values(values)
            for base, scenario in bases.items()
        }
        scenarios |= with_equal_memory(group)
    return checked(scenarios)


def checked(scenarios: dict[str, Scenario]) -> dict[str, Scenario]:
    """Return scenarios that can all be set up; ValueError names the first that cannot."""
    for name, scenario in scenarios.items():
        _pool_bytes(name, scenario)
    return scenarios


def with_equal_memory(scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
    """Give all scenarios the KV bytes that the first one with block tables has, else the first."""
    if len(scenarios) < 2:
        return dict(scenarios)
    paged = [name for name, one in scenarios.items() if one.allocator.kind == "paged"]
    name = (paged or list(scenarios))[0]
    size = f"{_pool_bytes(name, scenarios[name])}B"
    values = {"engine.num_gpu_blocks_override": "none", "engine.kv_memory": size}
    return {name: scenario.with_values(values) for name, scenario in scenarios.items()}


def _pool_bytes(name: str, scenario: Scenario) -> int:
    try:
        return set_up(scenario).pool.pool_bytes
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from None
