"""Scenarios twice where it matters: with one attention kernel for all, and each with its own.

A contiguous cache is read by another kernel than a paged one, and blocks of another size at
another speed. Where the step cost knows such factors, a comparison shows both; the difference
between the two rows is the kernel's, the rest the allocator's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.profile import layout_name
from kvsim.sim.cost.sources import own_attention_factor
from kvsim.sim.hardware import load_hardware
from kvsim.sim.scenario.setup import set_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.sim.scenario.scenario import Scenario


def with_own_kernels(scenarios: Mapping[str, Scenario]) -> tuple[dict[str, Scenario], str]:
    """Scenarios, each followed by its ``own kernel`` where known, and a sentence on what is not.

    Where any scenario says ``cost.attention_factor = "own"`` itself, all stay as they are.
    """
    if any(scenario.cost.attention_factor == "own" for scenario in scenarios.values()):
        return dict(scenarios), "cost.attention_factor is as the scenarios say"
    rows: dict[str, Scenario] = {}
    unknown: dict[str, None] = {}
    for name, scenario in scenarios.items():
        rows[name] = scenario
        layout, factor = _own_factor(scenario)
        if factor is None:
            unknown[layout] = None
        else:
            own = scenario.with_values({"cost.attention_factor": "own"})
            rows[", ".join(filter(None, (name, "own kernel")))] = own
    if len(rows) == len(scenarios):
        return rows, (
            "one attention kernel for all memory layouts: the step cost knows no factor for any"
        )
    words = "rows are with the same attention kernel, 'own kernel' with the layout's own"
    return rows, f"{words} (none known for {', '.join(unknown)})" if unknown else words


def _own_factor(scenario: Scenario) -> tuple[str, float | None]:
    config = set_up(scenario).config
    layout = layout_name(config.allocator.kind, config.block_size)
    if scenario.cost.source == "linear":
        return layout, None
    hardware = load_hardware(scenario.hardware.name)
    return layout, own_attention_factor(scenario.cost.source, hardware, layout)
