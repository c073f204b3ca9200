"""What swapping costs, where its numbers come from, and what cannot be swapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.cli.text.summary_table import summary_lines
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import EngineSetup, set_up
from kvsim.traces import read_trace
from kvsim.traces.adjust.select import slice_rows

MIB = 2**20
CHAT = Path(__file__).resolve().parents[3] / "traces/data/chat-2k.jsonl.gz"
SWAP: dict[str, object] = {"preemption.mode": "swap", "engine.async_scheduling": False}


def swapping(**values: object) -> EngineSetup:
    dotted = {name.replace("__", "."): value for name, value in values.items()}
    return set_up(Scenario.load("vllm-0.32").with_values({**SWAP, **dotted}))


def link_of(**values: object) -> HostLink:
    link = swapping(**values).link
    assert link is not None
    return link


def test_copies_by_hand() -> None:
    # 3 blocks of 4 copies at 6 us, and 3 MB at 30 GB/s
    link = HostLink(6 * 10**6, 30 * 10**9, block_bytes=10**6, copies_per_block=4)
    assert link.copy_ps(3) == (72 + 100) * 10**6
    assert link.copy_ps(0) == 0
    assert link.step_ps(500, 100) == 600
    beside = HostLink(0, 1, 1, 1, overlaps=True)
    assert (beside.step_ps(500, 100), beside.step_ps(500, 900)) == (500, 900)


@given(st.integers(1, 10**4), st.integers(1, 10**12), st.integers(1, 10**8))
def test_the_time_is_rounded_up(blocks: int, rate: int, size: int) -> None:
    moving_ps = HostLink(0, rate, size, 1).copy_ps(blocks)
    num_bytes = blocks * size
    assert (moving_ps - 1) * rate < num_bytes * 10**12 <= moving_ps * rate


def test_a_block_is_a_copy_for_k_and_v_of_each_layer() -> None:
    link = link_of()  # Llama 3.1 8B on an H100
    assert link == HostLink(6 * 10**6, 63 * 10**9, 2 * MIB, 64)
    assert link.copy_ps(1) == 64 * 6 * 10**6 + -(-2 * MIB * 10**12 // (63 * 10**9))
    assert link_of(preemption__swap_layout="per-block").copies_per_block == 1
    assert link_of(preemption__swap_overlap=True).overlaps


def test_a_latent_is_one_piece_and_a_windowed_table_has_its_own_layers() -> None:
    latent = link_of(model__name="deepseek-v2-lite")
    assert latent.copies_per_block == 27
    hybrid = link_of(model__name="gemma-3-27b")
    assert hybrid.copies_per_block == 2 * 10  # 62 layers, 10 of full attention


def test_numbers_that_are_given_are_not_assumed() -> None:
    setup = swapping(cost__swap_alpha="2us", cost__swap_bandwidth="25GB")
    assert setup.link is not None
    assert (setup.link.alpha_ps, setup.link.bytes_per_s) == (2 * 10**6, 25 * 10**9)
    assert not any("assumed" in note for note in setup.notes)
    (note,) = [note for note in swapping().notes if "assumed" in note]
    assert note == (
        "swapping costs are assumed, not measured: alpha = 6 us a copy, beta = 63 GB/s (datasheet)"
    )


def test_swap_space_is_counted_in_blocks_of_a_rank() -> None:
    assert swapping().config.num_host_blocks == 2048  # 4 GiB of 2 MiB
    halves = swapping(engine__tensor_parallel_size=2, preemption__swap_space="1GiB")
    assert halves.config.num_host_blocks == 1024
    assert "swap space holds 1,024 blocks; a block is 64 copies, shared ones too" in halves.notes
    assert any("read and not compared with its logs" in note for note in halves.notes)
    assert swapping(preemption__swap_space=0).config.num_host_blocks == 0
    without = set_up(Scenario.load("vllm-0.32"))
    assert (without.config.num_host_blocks, without.link) == (0, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"engine.async_scheduling": True},
            r"'swap' is not defined with a step in flight: set engine.async_scheduling = false",
        ),
        ({"engine.async_scheduling": "none"}, "is not defined with a step in flight"),
        (
            {"preemption.mode": "auto", "allocator.kind": "contiguous", "engine.kv_memory": "9GiB"},
            r"mode = 'auto' copies blocks .*: allocator.kind = 'contiguous' cannot",
        ),
        (
            {"batching.policy": "no-evict"},
            "'no-evict' brings nobody back from the host, mixed-running-first, iteration-level",
        ),
        ({"batching.policy": "prefill-first"}, "with batching.prefill_rule = 'watermark' do"),
        (
            {"hardware.name": "cpu-laptop", "memory.total": "64GiB"},
            "cpu-laptop has no link to a host, give its bytes a second as cost.swap_bandwidth",
        ),
    ],
)
def test_what_cannot_be_swapped(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        set_up(Scenario.load("vllm-0.32").with_values(SWAP | values))


def test_costs_that_nothing_uses_are_named() -> None:
    setup = set_up(Scenario().with_values({"cost.swap_alpha": "2us"}))
    assert "preemption.mode = 'recompute' copies nothing: cost.swap_* is unused" in setup.notes


def test_the_summary_tells_of_swaps_and_choices() -> None:
    trace = read_trace(CHAT)
    scenario = Scenario.load("vllm-0.32-sync").with_values(
        {
            "engine.kv_memory": "1GiB",
            "engine.max_model_len": 8192,
            "engine.enable_prefix_caching": False,
            "preemption.mode": "auto",
            "preemption.swap_layout": "per-block",
            "preemption.swap_space": "64MiB",
        }
    )
    run = simulate(slice_rows(trace, 0, 120), scenario, rate_scale=30)
    summary: dict[str, Any] = run.summary
    swaps, full = summary["preemptions"]["by_mode"]["swap"], summary["host"]["times_full"]
    assert swaps > 0
    assert full > 0
    lines = "\n".join(summary_lines(summary, []))
    assert f"{swaps} of them, {full} more found the host" in lines
    assert "peak 0.06 GiB" in lines
    assert "auto was right" in lines
    assert "choices whose victim" in lines
