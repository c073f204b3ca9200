"""The pool: terms that add up, whole blocks, overrides, and a sentence when nothing fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.hardware import GIB, load_hardware
from kvsim.sim.models import bundled_models, load_model
from kvsim.sim.pool.layout import block_layout
from kvsim.sim.pool.plan import plan_pool

LLAMA = load_model("llama-3.1-8b")
H100 = load_hardware("h100-sxm")


def test_terms_add_up_to_what_the_engine_may_use() -> None:
    pool = plan_pool(LLAMA, H100)
    usable, *spent = pool.terms
    assert [term.name for term in spent] == ["weights", "activation peak", "graphs", "non-torch"]
    assert usable.num_bytes == int(H100.total_bytes * 0.9)
    assert sum(term.num_bytes for term in spent) + pool.kv_bytes == usable.num_bytes
    assert [term.name for term in pool.terms if term.assumed] == [
        "activation peak", "graphs", "non-torch",
    ]  # fmt: skip
    assert all(term.formula for term in pool.terms)


def test_blocks_are_whole() -> None:
    pool = plan_pool(LLAMA, H100)
    assert pool.block_bytes == 16 * 131_072
    assert pool.num_blocks == pool.kv_bytes // pool.block_bytes
    assert 0 <= pool.remainder_bytes < pool.block_bytes
    assert pool.pool_tokens == 16 * pool.num_blocks


def test_a_start_up_log_of_the_same_model_and_card() -> None:
    """H100, 79.18 GiB, 1024 seats, 8192 tokens: weights 14.99, peak 4.76, KV 51.38 GiB."""
    pool = plan_pool(LLAMA, H100, max_num_seqs=1024, max_num_batched_tokens=8192)
    weights, peak = (pool.terms[index].num_bytes / GIB for index in (1, 2))
    assert weights == pytest.approx(14.99, abs=0.05)
    assert peak == pytest.approx(4.76, abs=0.03)
    assert pool.kv_bytes / GIB == pytest.approx(51.38, rel=0.01)


def test_every_term_can_be_given() -> None:
    pool = plan_pool(
        LLAMA,
        H100,
        total_bytes=40 * GIB,
        gpu_memory_utilization=0.5,
        weights_bytes=10 * GIB,
        peak_bytes=GIB,
        graphs_bytes=GIB,
        non_torch_bytes=0,
    )
    assert pool.kv_bytes == 8 * GIB
    assert pool.num_blocks == 8 * GIB // (16 * 131_072) == 4096
    assert not any(term.assumed for term in pool.terms)


def test_a_given_pool_is_taken_and_the_card_refuses_nothing() -> None:
    huge = plan_pool(LLAMA, H100, num_blocks=10**6)
    assert huge.given
    assert (huge.num_blocks, huge.remainder_bytes) == (10**6, 0)
    by_bytes = plan_pool(LLAMA, H100, kv_memory_bytes=12 * GIB + 5)
    assert (by_bytes.num_blocks, by_bytes.remainder_bytes) == (6144, 5)
    opt = plan_pool(load_model("opt-13b"), H100, kv_memory_bytes=12 * GIB, block_size=1)
    assert opt.pool_tokens == 15_728, "the paper's 12 GiB"


def test_nothing_fits_is_one_sentence_with_the_best_change() -> None:
    message = (
        r"llama-3.1-8b leaves -2.\d\d GiB for KV on h100-sxm at tp 1: usable 14.40 GiB"
        r" \(16.00 GiB x 0.9\) less weights 14.96, activation peak 1.19, .*"
        r"Frees most: weights bf16 -> int4 \(\+9.\d\d GiB a card\)"
    )
    with pytest.raises(ValueError, match=message):
        plan_pool(LLAMA, H100, total_bytes=16 * GIB)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("gpu_memory_utilization", 1.5, r"gpu_memory_utilization=1.5 is not in \(0, 1\]"),
        ("gpu_memory_utilization", float("nan"), "gpu_memory_utilization=nan"),
        ("block_size", 0, "block_size=0 must be >= 1"),
        ("num_blocks", 0, "num_blocks=0 must be >= 1"),
        ("kv_memory_bytes", 100, "kv_memory_bytes=100 holds 0 blocks"),
        ("weights_bytes", -1, "weights_bytes=-1 must be >= 0"),
        ("tp", 5, "tp=5 does not divide"),
    ],
)
def test_bad_arguments_are_named(argument: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_pool(LLAMA, H100, **{argument: value})  # type: ignore[arg-type]


@given(
    st.sampled_from([1, 8, 16, 32, 128]),
    st.floats(0.5, 1),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["bf16", "fp8", "q8_0"]),
)
def test_blocks_never_exceed_the_pool(
    block_size: int, utilization: float, tp: int, kv_dtype: str
) -> None:
    pool = plan_pool(
        LLAMA,
        H100,
        block_size=block_size,
        gpu_memory_utilization=utilization,
        tp=tp,
        kv_dtype=kv_dtype,
    )
    assert pool.num_blocks * pool.block_bytes + pool.remainder_bytes == pool.kv_bytes
    assert pool.remainder_bytes >= 0


def test_mixed_layers_become_tables_of_equal_height() -> None:
    layout = block_layout(load_model("gemma-3-27b"), 16)
    assert [t.num_layers for t in layout.tables.groups] == [10, 9, 9, 9, 9, 8, 8]
    assert layout.tables.layers_per_group == 10
    assert layout.tables.padding_layers == 8
    assert layout.kv_groups == (KVGroup(None), *(KVGroup(1024),) * 6)
    assert layout.block_bytes == 16 * 10 * 2 * 16 * 128 * 2
    assert layout.blocks_for(16_000, 1) == 1000 + 6 * (1024 // 16 + 1)
    assert layout.blocks_for(160, 8192) == 7 * 10
    even = block_layout(load_model("gpt-oss-20b"), 16)
    assert even.kv_groups == (KVGroup(None), KVGroup(128))


def test_nearly_equal_groups_are_padded_not_split() -> None:
    layout = block_layout(load_model("gemma-3-1b"), 16)
    assert layout.tables.layers_per_group == 4
    assert len(layout.kv_groups) == 1 + 6


def test_a_state_raises_the_block_size() -> None:
    """vLLM's log for Qwen3-Next: attention block size 544, so that a page holds the state."""
    layout = block_layout(load_model("qwen3-next-80b-a3b"), 16)
    assert layout.block_size == 544
    assert layout.num_state_tables == 3
    assert layout.kv_groups == (KVGroup(None),)
    assert layout.blocks_for(1, 1) == 1 + 3
    assert layout.blocks_for(545, 1) == 2 + 3


def test_smaller_tokens_get_more_of_them_a_block() -> None:
    layout = block_layout(load_model("gemma-4-31b"), 16)
    assert layout.block_sizes == (32, 16, 16, 16, 16, 16)
    assert not layout.uniform
    assert layout.page_bytes == 16 * 2 * 16 * 256 * 2
    assert block_layout(LLAMA, 16).uniform


def test_concurrency_as_the_log_prints_it_and_the_longest_request() -> None:
    pool = plan_pool(LLAMA, H100, num_blocks=2588)
    assert pool.max_concurrency(32_768) == pytest.approx(41_408 / 32_768)
    assert pool.longest_request(131_072) == 2587 * 16
    assert pool.longest_request(1000) == 1000
    mixed = plan_pool(load_model("gemma-3-27b"), H100, num_blocks=10_000)
    longest = mixed.longest_request(10**6, 2048)
    assert mixed.layout.blocks_for(longest, 2048) <= 9999
    assert mixed.layout.blocks_for(longest + 1, 2048) > 9999


def test_the_log_charges_a_window_one_block_more_and_a_chunk_none() -> None:
    layout = block_layout(load_model("gemma-3-27b"), 16)
    assert layout.blocks_for(8192, 16_384) == 7 * 512
    assert layout.charged_blocks(8192, 16_384) == 512 + 6 * 513
    assert layout.charged_blocks(131_072, 8192) == layout.blocks_for(131_072, 8192)
    pool = plan_pool(load_model("gemma-3-27b"), H100, num_blocks=7180)
    assert pool.max_concurrency(8192, 16_384) == 2.0
    chunked = block_layout(load_model("llama-4-scout"), 16)  # 12 full layers, 36 in chunks of 8,192
    assert chunked.charged_blocks(131_072, 2048) == 8192 + 3 * (8192 + 2048) // 16
    hybrid = block_layout(load_model("qwen3-next-80b-a3b"), 16)
    assert hybrid.charged_blocks(545) == hybrid.blocks_for(545) == 2 + 3


def test_opt_13b_on_the_papers_card() -> None:
    """SOSP'23: 26 GB of weights and about 12 GB of KV on a 40 GB card."""
    model = load_model("opt-13b")
    pool = plan_pool(model, load_hardware("a100-40gb"), max_num_seqs=256)
    assert pool.terms[1].num_bytes / 40e9 == pytest.approx(0.65, abs=0.015)
    assert pool.kv_bytes / 40e9 == pytest.approx(0.30, abs=0.03)


@given(
    st.sampled_from(bundled_models()),
    st.sampled_from([8, 16, 32]),
    st.integers(1, 40_000),
    st.integers(1, 8192),
)
def test_blocks_grow_with_length_and_windows_never_cost_more(
    name: str, block_size: int, length: int, step_tokens: int
) -> None:
    layout = block_layout(load_model(name), block_size)
    blocks = layout.table_blocks(length, step_tokens)
    for held, size in zip(blocks, layout.block_sizes, strict=True):
        assert 0 < held <= -(-length // size)
    assert layout.blocks_for(length + 1, step_tokens) >= layout.blocks_for(length, step_tokens)
    assert layout.page_bytes >= max(
        table.layers.layer_kv_bytes("bf16") for table in layout.tables.groups
    )
