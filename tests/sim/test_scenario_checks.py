"""Contiguous scenarios: presets, one word swapped, and combinations refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from kvsim.cli.summary_table import summary_lines
from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.engine_setup import set_up
from kvsim.sim.run import simulate
from kvsim.sim.scenario import Scenario
from kvsim.traces.trace import Trace

SMALL: dict[str, object] = {
    "model.name": "opt-13b",
    "hardware.name": "a100-40gb",
    "engine.kv_memory": "12GiB",
    "cost.source": "linear",
    "cost.base": "40ms",
}
CONTIGUOUS: dict[str, object] = {"allocator.kind": "contiguous"}
ITERATION_LEVEL: dict[str, object] = {"batching.policy": "iteration-level"}


@pytest.mark.parametrize("reservation", ["max", "pow2", "oracle"])
def test_presets(reservation: str) -> None:
    setup = set_up(Scenario.load(f"orca-{reservation}").with_values(SMALL))
    config, pool = setup.config, setup.pool
    assert (config.allocator, config.reservation, config.placement, config.batching) == (
        "contiguous",
        reservation,
        "buddy",
        "iteration-level",
    )
    assert config.num_gpu_blocks == config.usable_blocks == pool.num_blocks == 15_728
    assert (pool.block_size, pool.block_bytes, pool.num_null_blocks) == (1, 819_200, 0)
    assert pool.pool_bytes == 12 * 2**30
    assert config.max_num_batched_tokens == config.max_num_seqs * config.max_model_len
    assert (config.enable_prefix_caching, config.async_scheduling) == (False, False)
    told = [note for note in setup.notes if "uses oracle knowledge" in note]
    assert len(told) == (reservation != "max")


def test_a_run_says_what_it_knows_and_how_it_ran() -> None:
    trace = Trace("two", np.zeros(2, np.int64), np.array([10, 10]), np.array([5, 7]))
    run = simulate(trace, Scenario.load("orca-oracle").with_values(SMALL), audit=True)
    text = "\n".join(summary_lines(run.summary, run.setup.pool_terms))
    assert "uses oracle knowledge: allocator.reservation = 'oracle'" in text
    assert "leaper (FCFS, one full-attention group" in text
    assert "15,728 slots of one token, 12.00 GiB" in text
    memory = run.summary["memory"]
    assert isinstance(memory, dict)
    shares = memory["all_time"]["sosp23_percent"]
    assert list(shares) == ["token", "reserved", "internal", "external"]
    assert sum(shares.values()) == pytest.approx(100)
    paged = simulate(trace, Scenario().with_values(ITERATION_LEVEL | SMALL))
    assert paged.engine.engine == "leaper"


def test_one_word_makes_a_paged_preset_contiguous_and_back() -> None:
    there = set_up(Scenario().with_values(CONTIGUOUS | SMALL))
    assert (there.config.block_size, there.config.batching) == (1, "mixed-running-first")
    assert not there.config.enable_prefix_caching
    back = set_up(Scenario.load("orca-max").with_values({"allocator.kind": "paged"} | SMALL))
    assert (back.config.block_size, back.pool.num_null_blocks) == (16, 1)
    assert back.config.batching == "iteration-level"
    with_blocks = Scenario().with_values({"engine.block_size": 32} | CONTIGUOUS | SMALL)
    unused = set_up(with_blocks)
    assert unused.config.block_size == 1
    assert unused.notes == (
        "allocator.kind = 'contiguous' shares no prefixes: engine.enable_prefix_caching is unused",
        "allocator.kind = 'contiguous' counts slots: engine.block_size is unused",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {**CONTIGUOUS, "allocator.prefix": "hash"},
            "'contiguous' shares no prefixes: allocator.prefix cannot be 'hash'",
        ),
        (
            {**CONTIGUOUS, "engine.kv_memory": "none", "engine.num_gpu_blocks_override": 500},
            "has no blocks: size the pool with engine.kv_memory",
        ),
        ({**CONTIGUOUS, "batching.watermark": 0.1}, r"batching.watermark .=0.1. counts blocks"),
        ({**CONTIGUOUS, "engine.kv_groups": ["full", 64]}, "full attention in all layers"),
        ({**CONTIGUOUS, "engine.kv_groups": [64]}, "full attention in all layers"),
        (
            {**CONTIGUOUS, "engine.max_model_len": 8193},
            r"takes 16,384 slots in one run, the largest of the empty pool has 8,192: "
            r"lower engine.max_model_len .=8,193",
        ),
        (
            {**ITERATION_LEVEL, "engine.max_num_batched_tokens": 4096},
            r"no token budget: engine.max_num_batched_tokens .=4096.",
        ),
        (
            {**ITERATION_LEVEL, "batching.long_prefill_token_threshold": 64},
            r"no chunks: batching.long_prefill_token_threshold .=64.",
        ),
        ({"allocator.reservation": "half"}, "expected one of max, pow2, oracle"),
        ({"allocator.placement": "slab"}, "expected 'buddy' or 'first-fit' or 'best-fit'"),
    ],
)
def test_combinations_that_make_no_sense(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        set_up(Scenario().with_values(SMALL | values))


def test_exact_placement_holds_a_model_length_that_buddies_do_not() -> None:
    values = SMALL | CONTIGUOUS | {"engine.max_model_len": 8193, "allocator.placement": "first-fit"}
    config = set_up(Scenario().with_values(values)).config
    assert (config.max_model_len, config.kv_groups) == (8193, (KVGroup(),))
