"""Contiguous scenarios: presets, one word swapped, and combinations refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvsim.cli.text.summary_table import summary_lines
from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.trace.trace import Trace

SMALL: dict[str, object] = {
    "model.name": "opt-13b",
    "hardware.name": "a100-40gb",
    "engine.kv_memory": "12GiB",
    "cost.source": "linear",
    "cost.base": "40ms",
}
CONTIGUOUS: dict[str, object] = {"allocator.kind": "contiguous"}
ITERATION_LEVEL: dict[str, object] = {"batching.policy": "iteration-level"}
STATIC: dict[str, object] = {"batching.policy": "static", "engine.async_scheduling": False}
PREFILL_FIRST: dict[str, object] = STATIC | {"batching.policy": "prefill-first"}
TOKEN_BUDGET: dict[str, object] = STATIC | {"batching.policy": "token-budget"}


@pytest.mark.parametrize("reservation", ["max", "pow2", "oracle"])
def test_presets(reservation: str) -> None:
    setup = set_up(Scenario.load(f"orca-{reservation}").with_values(SMALL))
    config, pool = setup.config, setup.pool
    allocator = config.allocator
    assert (allocator.kind, allocator.reservation, allocator.placement) == (
        "contiguous",
        reservation,
        "buddy",
    )
    assert config.batching.policy == "iteration-level"
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
    assert run.summary.relocations is None
    assert "slid" not in text
    assert "15,728 slots of one token, 12.00 GiB" in text
    memory = run.summary.memory
    shares = memory.all_time.sosp23_percent.to_dict()
    assert list(shares) == ["token", "reserved", "internal", "external"]
    assert sum(shares.values()) == pytest.approx(100)
    paged = simulate(trace, Scenario().with_values(ITERATION_LEVEL | SMALL))
    assert paged.engine.engine == "leaper"


def test_a_run_says_what_it_moved() -> None:
    trace = Trace(
        "four",
        np.zeros(4, np.int64),
        np.array([10, 5, 10, 10]),
        np.array([1, 16, 1, 11]),
    )
    values = SMALL | {
        "engine.kv_memory": f"{40 * 800}KiB",
        "allocator.placement": "first-fit",
        "allocator.compaction": "when-blocked",
        "cost.per_copied_token": "1ms",
    }
    run = simulate(trace, Scenario.load("orca-oracle").with_values(values), audit=True)
    assert run.summary.relocations is not None
    assert run.summary.relocations.to_dict() == {
        "grown_in_place": 0,
        "moved": 0,
        "moved_bytes": 0,
        "preempted": 0,
        "slid": 1,
        "slid_bytes": 5 * 819_200,
        "copy_s": 0.005,
    }
    text = " ".join(" ".join(summary_lines(run.summary, run.setup.pool_terms)).split())
    assert "outgrown: 0 grew in place, 0 moved, 0 preempted; 1 slid; 0.00 GiB copied in 5" in text
    after_the_copy_s = 0.04 + 0.005 + 0.04
    assert run.requests["ttft_s"].tolist() == pytest.approx([0.04, 0.04, 0.04, after_the_copy_s])


def test_outgrown_reservations_grow_move_and_give_way() -> None:
    """Two answers, foretold to have 5 tokens and then twice what they have, in 60 slots.

    In step 7 both outgrow their 15 slots. The first moves from 0 to 30 and copies 15 tokens; the
    second has no hole, gives way, comes back a step later, and at last grows in place.
    """
    trace = Trace("two", np.zeros(2, np.int64), np.array([10, 10]), np.array([12, 14]))
    values = SMALL | {
        "engine.kv_memory": f"{60 * 800}KiB",
        "allocator.reservation": "predicted",
        "allocator.placement": "first-fit",
        "predictor.kind": "quantile",
        "predictor.prior": 5,
        "cost.per_copied_token": "1ms",
    }
    run = simulate(trace, Scenario.load("orca-max").with_values(values), audit=True)
    assert run.engine.reason == "predicted reservations may be outgrown: stepped through"
    assert run.summary.relocations is not None
    assert run.summary.relocations.to_dict() == {
        "grown_in_place": 1,
        "moved": 1,
        "moved_bytes": 15 * 819_200,
        "preempted": 1,
        "slid": 0,
        "slid_bytes": 0,
        "copy_s": 0.015,
    }
    assert run.requests["preemptions"].tolist() == [0, 1]
    assert run.requests["e2e_s"].tolist() == pytest.approx([12 * 0.04 + 0.015, 15 * 0.04 + 0.015])


def test_one_word_makes_a_paged_preset_contiguous_and_back() -> None:
    there = set_up(Scenario().with_values(CONTIGUOUS | SMALL))
    assert (there.config.block_size, there.config.batching.policy) == (1, "mixed-running-first")
    assert not there.config.enable_prefix_caching
    back = set_up(Scenario.load("orca-max").with_values({"allocator.kind": "paged"} | SMALL))
    assert (back.config.block_size, back.pool.num_null_blocks) == (16, 1)
    assert back.config.batching.policy == "iteration-level"
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
        (
            {**STATIC, "engine.max_num_batched_tokens": 4096},
            r"'static' has no token budget: engine.max_num_batched_tokens .=4096.",
        ),
        (
            {**STATIC, "batching.long_prefill_token_threshold": 64},
            r"no chunks: batching.long_prefill_token_threshold .=64.",
        ),
        (
            {**STATIC, "engine.async_scheduling": True},
            "'static' waits for the results of a step .*: set engine.async_scheduling = false",
        ),
        (
            {**PREFILL_FIRST, "engine.async_scheduling": "none"},
            "'prefill-first' waits for the results of a step",
        ),
        (
            {**PREFILL_FIRST, "engine.enable_chunked_prefill": False},
            "'new-token-ratio' cuts prompts: engine.enable_chunked_prefill cannot be false",
        ),
        (
            {**PREFILL_FIRST, **CONTIGUOUS},
            "'prefill-first' counts free blocks: allocator.kind = 'contiguous' has none",
        ),
        (
            {**TOKEN_BUDGET, **CONTIGUOUS},
            "'token-budget' counts free blocks: allocator.kind = 'contiguous' has none",
        ),
        (
            {**TOKEN_BUDGET, "engine.kv_groups": ["full", 64]},
            "'token-budget' counts memory for full attention in all layers",
        ),
        ({**STATIC, "allocator.prefix": "hash"}, "allocator.prefix cannot be 'hash'"),
        (
            {
                "batching.policy": "no-evict",
                "engine.block_size": 64,
                "engine.max_num_seqs": 8,
                "engine.max_num_batched_tokens": 32,
            },
            r"whole blocks: engine.max_num_batched_tokens .=32. must be at least "
            r"engine.block_size .=64.",
        ),
        ({"allocator.reservation": "half"}, "expected one of max, pow2, oracle, predicted"),
        (
            {**CONTIGUOUS, "allocator.reservation": "predicted", "predictor.kind": "none"},
            "'predicted' needs predicted lengths, but predictor.kind = 'none' has none",
        ),
        (
            {
                **CONTIGUOUS,
                "allocator.reservation": "predicted",
                "predictor.kind": "quantile",
                "batching.policy": "no-evict",
            },
            "may be outgrown: batching.policy = 'no-evict' makes nobody give way",
        ),
        (
            {**CONTIGUOUS, "allocator.compaction": "when-blocked"},
            "buddies stay at multiples of their size: choose allocator.placement = 'first-fit'",
        ),
        (
            {
                **CONTIGUOUS,
                "allocator.compaction": "when-blocked",
                "allocator.placement": "best-fit",
            },
            r"may be copied within the pool: cost.source = 'linear' needs cost.per_copied_token",
        ),
        ({"allocator.reservation_margin": 0}, "expected a number above 0"),
        ({"allocator.placement": "slab"}, "expected 'buddy' or 'first-fit' or 'best-fit'"),
    ],
)
def test_combinations_that_make_no_sense(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        set_up(Scenario().with_values(SMALL | values))


def test_one_word_changes_the_batching_and_switches_follow() -> None:
    base = Scenario.load("vllm-0.32-sync").with_values(SMALL)
    for policy, cuts, caches in (
        ("prefill-first", True, True),
        ("static", True, False),
        ("token-budget", False, True),
        ("no-evict", True, True),
    ):
        setup = set_up(base.with_values({"batching.policy": policy}))
        config = setup.config
        assert (config.batching.policy, config.enable_chunked_prefill) == (policy, cuts)
        assert config.enable_prefix_caching == caches
        told = [note for note in setup.notes if note.startswith("batching.policy")]
        assert len(told) == (not cuts) + (not caches), setup.notes
    watermark = PREFILL_FIRST | {"batching.prefill_rule": "watermark"}
    assert not set_up(base.with_values(watermark)).config.enable_chunked_prefill


def test_keys_of_another_batching_are_told() -> None:
    values = {"batching.new_token_ratio": 0.5, "batching.pad_to_longest": True}
    base = Scenario.load("vllm-0.32-sync").with_values(SMALL | values)
    assert set_up(base).notes == (
        "batching.new_token_ratio belongs to batching.policy = 'prefill-first': unused",
        "batching.pad_to_longest belongs to batching.policy = 'static': unused",
    )
    assert len(set_up(base.with_values({"batching.policy": "static"})).notes) == 2


def test_exact_placement_holds_a_model_length_that_buddies_do_not() -> None:
    values = SMALL | CONTIGUOUS | {"engine.max_model_len": 8193, "allocator.placement": "first-fit"}
    config = set_up(Scenario().with_values(values)).config
    assert (config.max_model_len, config.kv_groups) == (8193, (KVGroup(),))


@pytest.mark.parametrize(
    ("key", "value"), [("queue.policy", "sjf"), ("batching.reserve_predicted_output", True)]
)
def test_who_needs_a_predictor_says_so(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{key}.* needs predicted lengths"):
        set_up(Scenario().with_values({key: value}))
    set_up(Scenario().with_values({key: value, "predictor.kind": "quantile"}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (CONTIGUOUS, "'contiguous' reserves by allocator.reservation"),
        ({"engine.kv_groups": ["full", 64]}, "counts for full attention in all layers"),
        ({"batching.policy": "own:Policy"}, "not of 'own:Policy'"),
    ],
)
def test_where_room_for_answers_is_not_kept(values: dict[str, object], message: str) -> None:
    scenario = Scenario().with_values(
        {"batching.reserve_predicted_output": True, "predictor.kind": "quantile"}
    )
    own = values.pop("batching.policy", scenario.batching.policy)
    scenario = scenario.with_values(values)
    scenario = replace(scenario, batching=replace(scenario.batching, policy=str(own)))
    with pytest.raises(ValueError, match=message):
        set_up(scenario)


@pytest.mark.parametrize("session", [None, ["", ""]])
def test_fair_needs_a_trace_that_tells_users_apart(session: list[str] | None) -> None:
    trace = Trace("two", np.zeros(2, np.int64), np.array([10, 10]), np.array([5, 7]))
    trace.session = session
    fair = Scenario().with_values({"queue.policy": "fair"})
    trace.user = session
    with pytest.raises(ValueError, match="users of a trace, or else its sessions: two names nei"):
        simulate(trace, fair)
    trace.session, trace.user = ["", "ann"], None
    assert simulate(trace, fair).engine.reason == 'policy "fair" breaks the order of admission'
    trace.session, trace.user = None, ["", "ann"]
    assert simulate(trace, fair).engine.reason == 'policy "fair" breaks the order of admission'


def test_most_remaining_needs_a_predictor() -> None:
    with pytest.raises(ValueError, match=r"'most-remaining' needs guesses .* choose another"):
        set_up(Scenario.load("vllm-0.32").with_values({"preemption.victim": "most-remaining"}))
