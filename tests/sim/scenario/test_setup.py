"""Engines set up from scenarios: defaults by hardware and entry point, pool, cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kvsim.policies.predictor import PREDICTORS
from kvsim.sim.cost.profile_cost import ProfileCost
from kvsim.sim.cost.profile_file import dump_profile, load_bundled_profile
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"engine.num_gpu_blocks_override": 500, "engine.max_model_len": 4096}


@pytest.mark.parametrize(
    ("hardware", "entry_point", "seats", "budget"),
    [
        ("h100-sxm", "server", 1024, 8192),
        ("h100-sxm", "offline", 1024, 16384),
        ("a100-sxm", "server", 256, 2048),
        ("a100-sxm", "offline", 256, 8192),
    ],
)
def test_seats_and_budget_follow_hardware_and_entry_point(
    hardware: str, entry_point: str, seats: int, budget: int
) -> None:
    scenario = Scenario().with_values(
        {"hardware.name": hardware, "engine.entry_point": entry_point}
    )
    config = set_up(scenario).config
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seats, budget)
    assert (config.block_size, config.max_model_len) == (16, 131_072)
    assert config.async_scheduling is True


def test_the_pool_is_what_the_hardware_leaves_or_what_is_given() -> None:
    left = set_up(Scenario())
    assert left.config.num_gpu_blocks == left.pool.num_blocks > 20_000
    assert len(left.pool_terms) == 5
    given = set_up(Scenario().with_values(SMALL))
    assert given.config.num_gpu_blocks == given.pool.num_blocks == 500
    assert given.pool.pool_bytes == 500 * 2**21
    memory = set_up(Scenario().with_values({"engine.kv_memory": "1GB"}))
    assert memory.pool.pool_bytes == 10**9, "what fits no block is kept as the remainder"
    both = Scenario().with_values({**SMALL, "engine.kv_memory": 1})
    with pytest.raises(ValueError, match="both size the pool: give one"):
        set_up(both)


def test_a_pool_smaller_than_one_sequence_is_noted_not_refused() -> None:
    (note,) = set_up(Scenario().with_values({"engine.num_gpu_blocks_override": 100})).notes
    assert "the pool holds 1,584 tokens, fewer than max_model_len 131,072" in note
    assert set_up(Scenario().with_values({**SMALL, "engine.max_model_len": 4096})).notes == ()


def test_costs() -> None:
    linear = {
        "cost.source": "linear",
        "cost.base": "4ms",
        "cost.per_prefill_token": "30us",
        "cost.per_decode_seq": "50us",
        "cost.per_context_token": "20ns",
        "cost.per_copied_token": "3ns",
    }
    cost = set_up(Scenario().with_values(linear)).cost
    assert cost == LinearCost(4 * 10**9, 30 * 10**6, 50 * 10**6, 20_000, 3000)
    assert cost.copy_ps(7) == 21_000
    assert "h100-sxm profile" in set_up(Scenario()).cost.name
    datasheet = set_up(Scenario().with_values({"cost.source": "datasheet"})).cost
    assert "datasheet" in datasheet.name


def test_attention_by_memory_layout(tmp_path: Path) -> None:
    """Only decode attention is charged by the layout; what a profile does not know is refused."""
    file = tmp_path / "card.json"
    factors = {"contiguous": 0.8, "paged-16": 1.25}
    known = replace(load_bundled_profile("h100-sxm"), attention_factor=factors)
    file.write_text(dump_profile(known), encoding="utf-8")

    def cost_of(preset: str, factor: str, **engine: object) -> ProfileCost:
        values: dict[str, object] = {
            "cost.source": str(file),
            "cost.attention_factor": factor,
        }
        values |= {f"engine.{name}": value for name, value in engine.items()}
        cost = set_up(Scenario.load(preset).with_values(values)).cost
        assert isinstance(cost, ProfileCost)
        return cost

    (same,) = cost_of("vllm-0.32", "same").attention
    (paged,) = cost_of("vllm-0.32", "own").attention
    (run,) = cost_of("orca-oracle", "own", block_size=32).attention
    assert paged.decode_per_context_ps == pytest.approx(1.25 * same.decode_per_context_ps, abs=1)
    assert run.decode_per_context_ps == pytest.approx(0.8 * same.decode_per_context_ps, abs=1)
    assert run.mixed_per_context_ps == pytest.approx(0.8 * same.mixed_per_context_ps, abs=1)
    assert paged.area_fs == run.area_fs == same.area_fs, "prefill attention is left alone"
    assert cost_of("vllm-0.32", "same").gemm == cost_of("vllm-0.32", "own").gemm
    with pytest.raises(ValueError, match=r"has no factor for the layout paged-32; take 'same'"):
        cost_of("vllm-0.32", "own", block_size=32)
    linear = {"cost.source": "linear", "cost.base": "1ms", "cost.attention_factor": "own"}
    with pytest.raises(ValueError, match="'own' needs a profile, not source 'linear'"):
        set_up(Scenario().with_values(linear))


def test_asynchronous_scheduling_hides_the_host() -> None:
    decodes = ((), 64, 64 * 1000)
    overlapped = set_up(Scenario.load("vllm-0.32")).cost.step(*decodes).duration_ps
    serial = set_up(Scenario.load("vllm-0.32-sync")).cost.step(*decodes).duration_ps
    assert overlapped < serial


@pytest.mark.parametrize("kind", sorted(PREDICTORS.builtins))
def test_a_predictor_that_knows_the_truth_is_told(kind: str) -> None:
    told = set_up(Scenario().with_values({"predictor.kind": kind})).notes
    knows = f"uses oracle knowledge: predictor.kind = {kind!r} is made from the true length"
    assert any(note.startswith(knows) for note in told) == (kind in {"oracle", "noisy", "bucketed"})
