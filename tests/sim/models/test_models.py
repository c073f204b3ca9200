"""Models: exact bytes and parameter counts."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.models import bundled_models, load_model

GIB = 1 << 30

PUBLISHED = """
llama-3.1-8b 8,030,261,248 131,072
llama-2-7b 6,738,415,616 524,288
llama-2-13b 13,015,864,320 819,200
llama-2-70b 68,976,648,192 327,680
codellama-34b 33,743,970,304 196,608
llama-3-70b 70,553,706,496 327,680
llama-3.1-405b 405,853,388,800 516,096
llama-3.2-1b 1,235,814,400 32,768
llama-3.2-3b 3,212,749,824 114,688
llama-4-scout 107,769,861,120 196,608
tinyllama-1.1b 1,100,048,384 22,528
yi-34b 34,388,917,248 245,760
deepseek-67b 67,425,001,472 389,120
mistral-7b 7,241,732,096 131,072
mistral-7b-v0.3 7,248,023,552 131,072
mistral-nemo-12b 12,247,782,400 163,840
mistral-small-24b 23,572,403,200 163,840
mistral-large-123b 122,610,069,504 360,448
mixtral-8x7b 46,702,792,704 131,072
mixtral-8x22b 140,620,634,112 229,376
qwen2.5-0.5b 494,032,768 12,288
qwen2.5-1.5b 1,543,714,304 28,672
qwen2.5-3b 3,085,938,688 36,864
qwen2.5-7b 7,615,616,512 57,344
qwen2.5-14b 14,770,033,664 196,608
qwen2.5-32b 32,763,876,352 262,144
qwen2.5-72b 72,706,203,648 327,680
qwen3-0.6b 596,049,920 114,688
qwen3-4b 4,022,468,096 147,456
qwen3-8b 8,190,735,360 147,456
qwen3-32b 32,762,123,264 262,144
qwen3-30b-a3b 30,532,122,624 98,304
qwen3-235b-a22b 235,093,634,560 192,512
qwen3-next-80b-a3b 79,674,391,296 24,576
opt-125m 125,239,296 36,864
opt-6.7b 6,658,473,984 524,288
opt-13b 12,853,473,280 819,200
opt-30b 29,974,540,288 1,376,256
gpt2 124,439,808 73,728
starcoder-15b 15,517,456,384 20,480
starcoder2-15b 15,957,889,024 163,840
falcon-7b 6,921,720,704 8,192
falcon-40b 41,303,293,952 122,880
phi-2 2,779,683,840 327,680
phi-3-mini 3,821,079,552 393,216
phi-4 14,659,507,200 204,800
gemma-7b 8,537,680,896 458,752
gemma-2-2b 2,614,341,888 106,496
gemma-2-9b 9,241,705,984 344,064
gemma-2-27b 27,227,128,320 376,832
gemma-3-1b 999,885,952 26,624
gemma-3-27b 27,009,346,304 507,904
gemma-4-31b 30,697,345,280 901,120
gpt-oss-20b 20,914,757,184 49,152
gpt-oss-120b 116,829,156,672 73,728
deepseek-v2 235,741,434,880 69,120
deepseek-v2-lite 15,706,484,224 31,104
deepseek-v3 671,026,419,200 70,272
olmo-2-7b 7,298,617,344 1,048,576
command-r-35b 34,980,831,232 1,310,720
jamba-v0.1 51,570,323,328 16,384
"""
"""Parameters as the checkpoints have them, bytes a token in the model's own KV dtype."""


@pytest.mark.parametrize("row", PUBLISHED.split("\n")[1:-1])
def test_exact_counts(row: str) -> None:
    name, params, kv_bytes = row.split()
    model = load_model(name)
    assert f"{model.num_params:,}" == params
    assert f"{model.kv_bytes_per_token():,}" == kv_bytes


def test_forty_models_and_more() -> None:
    assert len(bundled_models()) >= 40


def test_sizes_people_quote() -> None:
    assert load_model("llama-3.1-8b").kv_bytes(131_072) == 16 * GIB
    assert load_model("qwen2.5-0.5b").kv_bytes(8192) == 96 << 20
    assert 16 * load_model("qwen2.5-0.5b").kv_bytes(8192) == 3 * GIB // 2
    assert load_model("llama-3.1-8b").weights_bytes() == 2 * 8_030_261_248


def test_seventy_billion_parameters_with_eight_kv_heads() -> None:
    model = load_model("llama-3.1-70b")
    assert model.kv_bytes(8192) == 5 * GIB // 2
    assert model.kv_bytes(131_072) == pytest.approx(42.9e9, rel=0.002)
    assert model.kv_bytes(32_768) == pytest.approx(10.7e9, rel=0.005)


def test_latent_attention_is_stored_once_and_copied_on_every_rank() -> None:
    v3, v2 = load_model("deepseek-v3"), load_model("deepseek-v2")
    assert v3.kv_bytes_per_token(tp=8) == v3.kv_bytes_per_token() == 61 * 576 * 2
    expanded = dataclasses.replace(v3, groups=v3.expanded)
    assert expanded.kv_bytes_per_token() == 4_997_120
    assert expanded.kv_bytes_per_token(tp=8) * 8 == 4_997_120
    assert v3.kv_bytes_per_token("fp8_ds_mla") == 61 * 656
    dense = load_model("deepseek-67b").kv_bytes_per_token()
    assert 1 - v2.kv_bytes_per_token() / dense == pytest.approx(0.822, abs=0.0005)
    six_bits = v2.kv_bytes_per_token() * 6 / 16
    assert 1 - six_bits / dense == pytest.approx(0.933, abs=0.0005)
    with pytest.raises(ValueError, match="for MLA models only"):
        load_model("llama-3.1-8b").kv_bytes_per_token("fp8_ds_mla")


def test_windows_stop_growing() -> None:
    model = load_model("gemma-3-27b")
    assert [(g.kind, g.num_layers, g.window) for g in model.groups] == [
        ("full", 10, None), ("sliding", 52, 1024),
    ]  # fmt: skip
    layer = 2 * 16 * 128 * 2
    assert model.kv_bytes(1024) == 62 * layer * 1024
    assert model.kv_bytes(131_072) == layer * (10 * 131_072 + 52 * 1024)
    assert load_model("gpt-oss-20b").kv_bytes(131_072) == 2 * 8 * 64 * 2 * 12 * (131_072 + 128)
    gemma4 = load_model("gemma-4-31b")
    assert gemma4.kv_bytes_per_token() == 880 * 1024
    assert gemma4.kv_bytes(10**6 + 1) - gemma4.kv_bytes(10**6) == 80 * 1024


def test_layers_that_read_an_earlier_cache_store_nothing() -> None:
    model = load_model("gemma-3n-e4b")
    assert [(g.num_layers, g.num_kv_layers) for g in model.groups] == [(7, 4), (28, 16)]
    assert model.kv_bytes_per_token() == 20 * 2 * 2 * 256 * 2


def test_a_state_is_paid_once_a_request() -> None:
    model = load_model("qwen3-next-80b-a3b")
    state = 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 2)
    assert model.kv_bytes_fixed_per_request() == state
    assert model.kv_bytes(1000) == state + 1000 * 12 * 2 * 2 * 256 * 2
    assert model.kv_bytes(1000, tp=2) * 2 == model.kv_bytes(1000)


def test_weights_by_format() -> None:
    model = load_model("llama-3.1-8b")
    rest = 2 * (model.num_params - model.params.layer_linear)
    assert model.weights_bytes("fp8") == model.params.layer_linear + rest
    assert model.weights_bytes("int4") == model.params.layer_linear * 4.15625 // 8 + rest
    assert load_model("deepseek-v3").weight_dtype == "fp8"
    mx = load_model("gpt-oss-120b")
    assert mx.weights_bytes() / GIB == pytest.approx(60.8, abs=0.5)


@given(st.sampled_from(bundled_models()), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 10**6))
def test_ranks_together_never_hold_less_than_one(name: str, tp: int, length: int) -> None:
    model = load_model(name)
    assert tp * model.kv_bytes(length, tp=tp) >= model.kv_bytes(length)
    assert tp * model.weights_bytes(tp=tp) >= model.weights_bytes()
    full = dataclasses.replace(
        model, groups=tuple(dataclasses.replace(g, window=None) for g in model.groups)
    )
    assert model.kv_bytes(length) <= full.kv_bytes(length)


def test_every_bundled_model_loads_and_has_a_source() -> None:
    for name in bundled_models():
        model = load_model(name)
        assert model.name == name
        assert model.source.startswith("http"), name
        assert model.max_position >= 1024


def test_tensor_parallel_ranks_split_heads_down_to_one_then_copy() -> None:
    model = load_model("llama-3.1-8b")
    per_rank = [model.kv_bytes_per_token(tp=tp) for tp in (1, 2, 4, 8, 16, 32)]
    assert per_rank == [131_072, 65_536, 32_768, 16_384, 16_384, 16_384]
    assert 8 * model.weights_bytes(tp=8) >= model.weights_bytes()
    v3 = load_model("deepseek-v3")
    copied = 61 * 7168 * (1536 + 512 + 64)  # the way down to the latents, fp8, on every rank
    norms = 2 * v3.params.norms
    assert v3.weights_bytes(tp=8) == -(-(v3.weights_bytes() - norms + 7 * copied) // 8) + norms
    with pytest.raises(ValueError, match="tp=3 does not divide the 32 attention heads"):
        model.check_tp(3)


def test_kv_formats_halve_and_quarter_the_payload() -> None:
    model = load_model("llama-3.1-8b")
    assert [model.kv_bytes_per_token(d) for d in ("fp32", "bf16", "fp8", "int8", "int4")] == [
        262_144, 131_072, 65_536, 65_536, 32_768,
    ]  # fmt: skip
    values = 65_536
    assert model.kv_bytes_per_token("q8_0") == values * 17 // 16
    assert model.kv_bytes_per_token("q4_0") == values * 9 // 16
    assert model.kv_bytes_per_token("fp8_per_head") == values + 32 * 2 * 8 * 4


@pytest.mark.parametrize("odd", [None, [], 3, 1.5, b"x"])
def test_what_is_no_name_is_told(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"model is .*; it must be "):
        load_model(odd)
