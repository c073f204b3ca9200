"""Rows with the layout's own attention kernel, where the step cost knows one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.own_kernels import with_own_kernels
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.sim.cost.profile_file import dump_profile, load_bundled_profile
from kvsim.traces import bundled_path, read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.scenario.scenario import Scenario


@pytest.fixture
def scenarios(tmp_path: Path) -> dict[str, Scenario]:
    """A profile that knows two layouts, under an allocator of each."""
    file = tmp_path / "card.json"
    factors = {"contiguous": 0.8, "paged-16": 1.25}
    known = replace(load_bundled_profile("h100-sxm"), attention_factor=factors)
    file.write_text(dump_profile(known), encoding="utf-8")
    values: dict[str, object] = {"cost.source": str(file), "engine.max_model_len": 4096}
    named = allocator_scenarios("orca-oracle,paged")
    return {name: scenario.with_values(values) for name, scenario in named.items()}


def test_each_scenario_has_a_row_with_its_own_kernel(scenarios: dict[str, Scenario]) -> None:
    rows, note = with_own_kernels(scenarios)
    names = ["orca-oracle", "orca-oracle, own kernel", "paged", "paged, own kernel"]
    assert list(rows) == names
    assert "'own kernel' with the layout's own" in note
    trace = read_trace(bundled_path("chat-2k"), limit=60)
    tpot_s = {row.name: row.metrics["tpot_s_p50"] for row in compare(trace, rows, jobs=1).rows}
    assert tpot_s["orca-oracle, own kernel"] < tpot_s["orca-oracle"]
    assert tpot_s["paged, own kernel"] > tpot_s["paged"]


def test_layouts_without_a_factor_are_named(scenarios: dict[str, Scenario]) -> None:
    other = scenarios["paged"].with_values({"engine.block_size": 32})
    rows, note = with_own_kernels(scenarios | {"other": other})
    assert "other" in rows
    assert "other, own kernel" not in rows
    assert note.endswith("(none known for paged-32)")


def test_without_factors_one_kernel_serves_all() -> None:
    bare = allocator_scenarios("orca-oracle,paged")
    assert with_own_kernels(bare) == (
        bare,
        "one attention kernel for all memory layouts: the step cost knows no factor for any",
    )


def test_scenarios_that_choose_stay_as_they_are(scenarios: dict[str, Scenario]) -> None:
    own = scenarios["paged"].with_values({"cost.attention_factor": "own"})
    rows, note = with_own_kernels({"own": own, "same": scenarios["paged"]})
    assert list(rows) == ["own", "same"]
    assert note == "cost.attention_factor is as the scenarios say"
