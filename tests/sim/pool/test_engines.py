"""SGLang's tokens and llama.cpp's slots, against figures of their logs; levers of each engine."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.hardware import GIB, load_hardware
from kvsim.sim.models import ModelSpec, bundled_models, load_model
from kvsim.sim.models.layers import KVShape, group_layers
from kvsim.sim.pool.levers import best_lever, levers, surplus
from kvsim.sim.pool.llama_cpp import slot_bytes
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import ENGINES, PoolTooSmallError, plan
from kvsim.sim.pool.sglang import default_chunk

MIB = 1 << 20
LLAMA = load_model("llama-3.1-8b")
H100, RTX = load_hardware("h100-sxm"), load_hardware("rtx-4090")


def sglang(model: ModelSpec = LLAMA, **values: object) -> PoolRequest:
    return replace(PoolRequest(model, H100, engine="sglang", block_size=1), **values)  # type: ignore[arg-type]


def llama_cpp(model: ModelSpec = LLAMA, **values: object) -> PoolRequest:
    return replace(PoolRequest(model, RTX, engine="llama.cpp"), **values)  # type: ignore[arg-type]


def test_sglang_counts_tokens_and_has_no_null_block() -> None:
    pool = plan(sglang(kv_memory_bytes=GIB))
    assert (pool.null_blocks, pool.block_size, pool.num_blocks) == (0, 1, 8192)
    assert pool.requests_of(8192) == 1
    assert pool.longest_request(10**6) == 8192
    paged = plan(sglang(kv_memory_bytes=GIB + 5, block_size=64))
    assert (paged.num_blocks, paged.pool_tokens, paged.remainder_bytes) == (128, 8192, 5)


def test_sglang_keeps_memory_free_by_its_own_default() -> None:
    """512 MiB + 1.5 MiB a chunk token + 2 MiB a graph + 128 MiB a rank; 10 GiB on large cards."""
    pool = plan(sglang())
    usable, weights, kept, non_torch = pool.terms
    assert kept.num_bytes == (512 + 12_288 + 512 + 128) * MIB
    assert usable.num_bytes - weights.num_bytes - kept.num_bytes - non_torch.num_bytes == (
        pool.kv_bytes
    )
    small = plan(replace(sglang(), hardware=RTX))
    assert small.terms[2].num_bytes == (512 + 3072 + 48 + 128) * MIB
    fraction = plan(sglang(mem_fraction_static=0.88))
    free = H100.total_bytes - fraction.terms[3].num_bytes
    assert fraction.kv_bytes == pytest.approx(0.88 * free - weights.num_bytes, abs=2)
    given = plan(sglang(peak_bytes=GIB, graphs_bytes=GIB))
    assert given.terms[2].num_bytes == 2 * GIB


def test_sglang_defaults_by_card() -> None:
    assert default_chunk(16 * GIB, 1) == (2048, 8)
    assert default_chunk(24 * GIB, 4) == (2048, 80)
    assert default_chunk(40 * GIB, 1) == (4096, 32)
    assert default_chunk(80 * GIB, 8) == (8192, 512)
    assert default_chunk(180 * GIB, 1) == (16_384, 512)


def test_sglang_gives_windows_a_smaller_pool() -> None:
    model = load_model("gpt-oss-20b")
    pool = plan(sglang(model, kv_memory_bytes=GIB))
    layer = 12 * 8 * 128 * 2
    assert pool.num_blocks == GIB * 10 // (layer * 18)
    assert pool.requests_of(10_000) == pool.num_blocks // 10_000
    assert "0.8 x the tokens" in pool.notes[1]
    with pytest.raises(ValueError, match="splits memory between states and tokens"):
        plan(sglang(load_model("qwen3-next-80b-a3b")))


@pytest.mark.parametrize(
    ("model", "cells", "kv_dtype", "mib"),
    [
        ("mistral-7b", 4096, "fp16", 512),
        ("llama-3.2-3b", 4096, "fp16", 448),
        ("llama-3.2-3b", 4096, "q8_0", 238),
        ("llama-3.1-8b", 8192, "q8_0", 544),
    ],
)
def test_llama_cpp_buffer_sizes_of_public_logs(
    model: str, cells: int, kv_dtype: str, mib: float
) -> None:
    """``llama_kv_cache: size = ...`` (q8_0 of the 3B: K alone is 119.00 there)."""
    assert slot_bytes(load_model(model), cells, kv_dtype) == mib * MIB


@pytest.mark.parametrize(
    ("window", "context", "slots", "mib"), [(128, 8192, 2, 23.5), (1024, 8192, 4, 62)]
)
def test_llama_cpp_windows_of_public_logs(
    window: int, context: int, slots: int, mib: float
) -> None:
    """Six layers, five of them sliding, 4 KV heads x 64: logged by llama-server."""
    full = KVShape("full", 4, 4, 64, 64)
    layers = [
        replace(LLAMA.layers[0], shape=full._replace(kind="sliding", window=window)),
    ] * 5 + [replace(LLAMA.layers[0], shape=full)]
    model = replace(LLAMA, layers=tuple(layers), groups=group_layers(layers))
    assert slots * slot_bytes(model, context, "fp16") == mib * MIB


def test_llama_cpp_pads_a_slot_to_256_cells() -> None:
    assert slot_bytes(LLAMA, 1, "fp16") == slot_bytes(LLAMA, 256, "fp16") == 256 * 131_072
    assert slot_bytes(LLAMA, 257, "fp16") == 512 * 131_072


def test_llama_cpp_allocates_everything_at_start() -> None:
    four = plan(llama_cpp(max_model_len=4096, slots=4))
    assert (four.num_blocks, four.block_size, four.pool_tokens) == (4, 4096, 16_384)
    assert four.requests_of(1) == four.requests_of(4096) == 4
    assert four.requests_of(4097) == 0
    assert four.max_concurrency(4097) == 0
    assert "-c 16384 -np 4" in four.notes[0]
    most = plan(llama_cpp(max_model_len=4096))
    assert (
        most.num_blocks * most.block_bytes
        <= most.kv_bytes
        < (most.num_blocks + 1) * most.block_bytes
    )
    assert f"{most.num_blocks} slots fit" in four.notes[0]
    buffer = most.terms[2]
    assert (buffer.name, buffer.num_bytes) == ("compute buffer", int(258.5 * MIB))
    with pytest.raises(PoolTooSmallError, match="slots 100 -> 1"):
        plan(llama_cpp(max_model_len=4096, slots=100))
    with pytest.raises(ValueError, match="whole layers on each card; use --pp 2"):
        plan(llama_cpp(tp=2))
    with pytest.raises(ValueError, match="in its own format; that is not modelled"):
        plan(llama_cpp(load_model("qwen3-next-80b-a3b")))


def test_an_unknown_engine_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'vlm' is unknown .*'vllm'.*: vllm, s"):
        plan(PoolRequest(LLAMA, H100, engine="vlm"))


@given(
    st.sampled_from(bundled_models()),
    st.sampled_from(sorted(ENGINES)),
    st.integers(1, 64),
    st.sampled_from([1, 16, 100]),
    st.integers(2, 40_000),
)
def test_blocks_never_exceed_the_pool_under_any_engine(
    name: str, engine: str, gib: int, block_size: int, length: int
) -> None:
    request = PoolRequest(
        load_model(name),
        H100,
        engine=engine,
        kv_memory_bytes=gib * GIB,
        block_size=block_size,
        max_model_len=length,
    )
    try:
        pool = plan(request)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    assert 0 < pool.num_blocks * pool.block_bytes <= pool.kv_bytes
    longest = pool.longest_request(length, request.step_tokens)
    assert 0 <= longest <= length
    if longest == length:
        assert pool.requests_of(length) >= 1
        assert surplus(request, ENGINES) >= 0


def test_levers_are_ordered_and_say_whether_they_are_enough() -> None:
    request = PoolRequest(LLAMA, RTX, max_model_len=131_072)
    found = levers(request, ENGINES)
    assert [lever.freed_bytes for lever in found] == sorted(
        (lever.freed_bytes for lever in found), reverse=True
    )
    by_name = {lever.change.split(" ", 1)[0]: lever for lever in found}
    assert set(by_name) >= {"tp", "max_model_len", "weights", "KV", "utilization"}
    assert by_name["max_model_len"].enough
    assert by_name["KV"].freed_bytes == 8 * GIB + 2**20, "and half a null block"
    assert not by_name["utilization"].enough
    length = int(by_name["max_model_len"].change.rsplit(" ", 1)[1])
    assert plan(request).longest_request(131_072) == length


def test_a_given_pool_is_helped_by_a_shorter_length_only() -> None:
    request = PoolRequest(LLAMA, RTX, num_blocks=101, max_model_len=10_000)
    (only,) = levers(request, ENGINES)
    assert only.change == "max_model_len 10000 -> 1600"
    fits = replace(request, max_model_len=1600)
    assert best_lever(fits, ENGINES) == "No single change frees memory."


def test_more_batched_tokens_leave_less() -> None:
    few, many = (
        plan(PoolRequest(load_model("gemma-3-27b"), H100, max_num_batched_tokens=n))
        for n in (2048, 8192)
    )
    assert few.num_blocks > many.num_blocks
    request = PoolRequest(
        load_model("gemma-3-27b"), H100, max_num_batched_tokens=16_384, max_model_len=4096
    )
    assert any("max_num_batched_tokens" in lever.change for lever in levers(request, ENGINES))
