"""Presets of a comparison: what they compare, and on which requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.comparison.presets import COMPARISON_PRESETS, PublishedLine, comparison_preset
from kvsim.sim.comparison.presets.long_vs_short import NUM_LONG, PARTS
from kvsim.sim.scenario.setup import set_up

if TYPE_CHECKING:
    from kvsim.sim.scenario.scenario import Scenario


def unchanged(scenario: Scenario) -> Scenario:
    return scenario


@pytest.mark.parametrize("name", COMPARISON_PRESETS)
def test_every_preset_can_be_set_up_on_equal_memory(name: str) -> None:
    preset = comparison_preset(name)
    assert preset.name == name
    assert len(preset.summary) < 80
    setups = [set_up(scenario) for scenario in preset.scenarios(unchanged).values()]
    assert len({setup.pool.pool_bytes for setup in setups}) == 1
    first, again, other = (preset.traces(seed) for seed in (1, 1, 2))
    for one, same, another in zip(first, again, other, strict=True):
        assert (one.prompt_tokens == same.prompt_tokens).all()
        assert (one.prompt_tokens != another.prompt_tokens).any()
    assert len({trace.name for trace in first}) == len(first)


def test_options_change_every_scenario_last() -> None:
    for name, preset in COMPARISON_PRESETS.items():
        made = preset.scenarios(lambda one: one.with_values({"engine.max_num_seqs": 7})).values()
        assert {scenario.engine.max_num_seqs for scenario in made} == {7}, name


def test_each_lever_changes_one_thing_more() -> None:
    columns = COMPARISON_PRESETS["levers"].scenarios(unchanged)
    assert list(columns) == [
        *("MHA, 32 heads", "GQA, 8 heads", "fp8 KV", "cap, 8192", "paged", "prefix")
    ]
    setups = [set_up(scenario) for scenario in columns.values()]
    tokens = [setup.pool.num_blocks * setup.pool.block_size for setup in setups]
    assert tokens[1] == pytest.approx(4 * tokens[0], rel=1e-3)
    assert tokens[2] == pytest.approx(2 * tokens[1], rel=1e-3)
    assert [setup.config.max_model_len for setup in setups] == [32_768] * 3 + [8192] * 3
    assert [setup.config.allocator.kind for setup in setups] == ["contiguous"] * 4 + ["paged"] * 2
    assert [setup.config.enable_prefix_caching for setup in setups] == [False] * 5 + [True]


def test_levers_of_other_models() -> None:
    levers = COMPARISON_PRESETS["levers"]
    columns = levers.scenarios(lambda one: one.with_values({"model.name": "opt-13b"}))
    assert list(columns)[:2] == ["MHA, 40 heads", "GQA, 8 heads"]
    assert [one.engine.max_model_len for one in columns.values()] == [2048] * 3 + [512] * 3
    with pytest.raises(ValueError, match="gemma-3-1b has 4 attention heads: choose another"):
        levers.scenarios(lambda one: one.with_values({"model.name": "gemma-3-1b"}))


def test_long_and_short_requests_have_equal_tokens() -> None:
    long, short = COMPARISON_PRESETS["long-vs-short"].traces(seed=5)
    assert (len(long), len(short)) == (NUM_LONG, NUM_LONG * PARTS) == (48, 768)
    assert long.prompt_tokens.sum() == short.prompt_tokens.sum()
    assert long.output_tokens.sum() == short.output_tokens.sum()
    assert (long.prompt_tokens == short.prompt_tokens[::PARTS] * PARTS).all()
    assert (np.diff(short.arrival_ns) >= 0).all()
    assert (short.arrival_ns[::PARTS] == long.arrival_ns).all()


def test_differences_are_ours_less_theirs() -> None:
    line = PublishedLine("x", (20.0, None, (1.0, 2.0)), (20.5, 3.0, 1.5))
    assert line.differences() == (0.5, None, None)


def test_an_unknown_preset_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'levels' is unknown .*'levers'.*: levers, long-vs"):
        comparison_preset("levels")
