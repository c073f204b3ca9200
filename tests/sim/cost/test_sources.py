"""Sources of a cost: which one is meant, what it is called, how it scales."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvsim.sim.cost.deployment import Deployment
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import dump_profile, load_bundled_profile
from kvsim.sim.cost.scale import scale_profile
from kvsim.sim.cost.sources import (
    build_cost,
    error_notes,
    find_profile,
    own_attention_factor,
)
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import bundled_models, load_model

LLAMA = load_model("llama-3.1-8b")
H100 = load_hardware("h100-sxm")
A100 = load_hardware("a100-sxm")
MS = 10**9


def test_the_name_says_source_and_fidelity() -> None:
    fitted = (
        "h100-sxm profile (layer, decode, prefill, head, all-reduce fitted; mixed, overhead"
        " assumed)"
    )
    assert build_cost("auto", LLAMA, H100).name == fitted
    assert build_cost("profile", LLAMA, H100).name == fitted
    assert build_cost("datasheet", LLAMA, H100).name == "h100-sxm datasheet (all assumed)"
    other = build_cost("auto", load_model("qwen2.5-7b"), H100).name
    assert other.endswith("; derived for qwen2.5-7b from llama-3.1-8b)")
    split = build_cost("auto", LLAMA, H100, tp=2).name
    assert split.endswith("; derived for llama-3.1-8b with tp 2 from llama-3.1-8b)")
    narrow = build_cost("auto", LLAMA, H100, weight_dtype="int4", kv_dtype="fp8").name
    assert "derived for llama-3.1-8b with int4 weights and fp8 KV from" in narrow


def test_large_errors_on_unseen_points_are_told() -> None:
    profile = replace(load_bundled_profile("h100-sxm"), name="mine")
    assert error_notes(profile) == ()
    poor, good = HoldOut(0.357, 0.517, 4), HoldOut(0.1, 0.9, 4)
    found = {"layer": poor, "decode_attention": good, "prefill_attention": HoldOut(0.218, 0.3, 4)}
    assert error_notes(replace(profile, hold_out=found)) == (
        "step costs of layer and prefill_attention were 36 and 22 % off, at the median, on points "
        "that the fit of mine had not seen",
    )
    (one,) = error_notes(replace(profile, hold_out={"layer": poor}))
    assert one.startswith("step costs of layer were 36 % off")
    (three,) = error_notes(replace(profile, hold_out=dict.fromkeys(("a", "b", "c"), poor)))
    assert three.startswith("step costs of a, b and c were 36, 36 and 36 % off")
    (just,) = error_notes(replace(profile, hold_out={"a": HoldOut(0.1000001, 0.2, 4)}))
    assert just.startswith("step costs of a were 11 % off"), "10 % is no reason for a note"


def test_layers_are_folded_in_and_rounded_once() -> None:
    cost, profile = build_cost("auto", LLAMA, H100), load_bundled_profile("h100-sxm")
    us, token_us = profile.gemm.pieces[0]
    assert cost.gemm.pieces[0] == (round(32e6 * us), round(32e6 * token_us))
    assert cost.attention[0].decode_ps == round(32e6 * profile.decode_attention.per_call_us)
    assert cost.host_ps == 300_000_000


def test_a_copy_reads_and_writes_once_at_the_bandwidth_of_the_card() -> None:
    bytes_a_token = LLAMA.kv_bytes_per_token()
    expected_ps = 2 * 1000 * bytes_a_token / H100.bandwidth_bytes_per_s * 10**12
    for source in ("auto", "datasheet"):
        cost = build_cost(source, LLAMA, H100)
        assert cost.copy_ps(1000) == pytest.approx(expected_ps, rel=1e-5)
    halves = build_cost("auto", LLAMA, H100, tp=2, kv_dtype="fp8")
    assert halves.copy_ps(1000) == pytest.approx(expected_ps / 4, rel=1e-4)


def test_one_request_on_an_h100_against_the_published_line() -> None:
    """vLLM blog, Llama-3.1-8B bf16, one request: 6.44 ms + 4.37e-5 ms a context token."""
    cost = build_cost("auto", LLAMA, H100, overlap=True)
    short, long = (cost.step((), 1, tokens)[0] / MS for tokens in (256, 100_256))
    assert short == pytest.approx(6.44, rel=0.08)
    assert (long - short) / 100_000 == pytest.approx(4.37e-5, rel=0.06)


def test_the_datasheet_is_near_the_fitted_decode_step() -> None:
    for card, error in ((H100, 0.10), (A100, 0.15)):
        fitted, assumed = (build_cost(source, LLAMA, card) for source in ("auto", "datasheet"))
        for batch, context in ((1, 256), (16, 1024), (64, 2048)):
            expected = fitted.step((), batch, batch * context)[0]
            assert assumed.step((), batch, batch * context)[0] == pytest.approx(expected, rel=error)


def test_what_is_assumed_is_outside_the_measured_range() -> None:
    assert build_cost("auto", LLAMA, H100).step((), 8, 8000)[1]
    assert build_cost("auto", LLAMA, H100).step([(512, 0)], 0, 0)[1]
    assert not build_cost("auto", LLAMA, H100).step([(512, 512)], 0, 0)[1], "past: assumed"
    assert not build_cost("auto", LLAMA, H100).step([(512, 0)], 8, 8000)[1], "mixed: assumed"
    assert not build_cost("auto", LLAMA, H100).step((), 513, 8000)[1]
    assert not build_cost("datasheet", LLAMA, H100).step((), 8, 8000)[1]


def test_terms_scale_with_what_drives_them() -> None:
    base = build_cost("auto", LLAMA, H100)
    fp8_kv = build_cost("auto", LLAMA, H100, kv_dtype="fp8")
    halved = base.attention[0].decode_per_context_ps
    assert 2 * fp8_kv.attention[0].decode_per_context_ps == pytest.approx(halved, abs=1)
    assert fp8_kv.gemm == base.gemm
    fp8 = build_cost("auto", LLAMA, H100, weight_dtype="fp8")
    floor_ps = 32e6 * load_bundled_profile("h100-sxm").layer_floor_us
    less_ps = (base.gemm.pieces[0][0] - floor_ps) / 2 + floor_ps
    assert floor_ps > 0
    assert fp8.gemm.pieces[0][0] == pytest.approx(less_ps, abs=1)
    split = build_cost("auto", LLAMA, H100, tp=2)
    assert split.gemm.pieces[0][0] == pytest.approx(less_ps, abs=1)
    assert split.all_reduce.at(1) > 0
    copied = build_cost("auto", LLAMA, H100, tp=16)
    assert copied.attention[0].decode_per_context_ps * 8 == pytest.approx(
        base.attention[0].decode_per_context_ps, abs=8
    )
    many_heads = build_cost("auto", load_model("llama-2-7b"), H100, kv_dtype="bf16")
    assert many_heads.attention[0].decode_per_context_ps == pytest.approx(
        4 * base.attention[0].decode_per_context_ps, abs=4
    )
    slower = build_cost("auto", LLAMA, H100, attention_factor=1.25)
    assert slower.attention[0].decode_ps == pytest.approx(1.25 * base.attention[0].decode_ps, abs=1)


def test_tiles_and_prefills_scale_with_arithmetic() -> None:
    base = build_cost("auto", LLAMA, A100)
    profile = load_bundled_profile("a100-sxm")
    assert base.gemm.tile_tokens == profile.gemm.tile_tokens == 128
    assert base.gemm.per_tile_ps == round(32e6 * profile.gemm.per_tile_us)
    split = build_cost("a100-sxm", LLAMA, A100, tp=2)
    assert split.gemm.per_tile_ps == pytest.approx(base.gemm.per_tile_ps / 2, abs=1)
    by_request = [cost.attention[0].reach_per_request_ps for cost in (base, split)]
    assert by_request[0] == round(32e6 * profile.prefill_attention.reach_per_request_us) > 0
    assert by_request[1] == pytest.approx(by_request[0] / 2, abs=1)
    experts = build_cost("a100-sxm", load_model("mixtral-8x7b"), A100).gemm
    assert all(experts.at(n) <= experts.at(n + 1) for n in range(1, 1200))


def test_factors_by_memory_layout(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    factors = {"contiguous": 0.8, "paged-16": 1.25}
    known = replace(load_bundled_profile("h100-sxm"), attention_factor=factors)
    file.write_text(dump_profile(known), encoding="utf-8")
    assert own_attention_factor(str(file), H100, "paged-16") == 1.25
    assert own_attention_factor(str(file), H100, "paged-32") is None
    assert own_attention_factor("auto", H100, "paged-16") is None
    name = build_cost(str(file), LLAMA, H100, attention_factor=1.25).name
    assert "decode attention x 1.25 for its memory layout" in name


def test_a_profile_file_by_path(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    file.write_text(dump_profile(load_bundled_profile("h100-sxm")), encoding="utf-8")
    assert build_cost(str(file), LLAMA, H100) == build_cost("auto", LLAMA, H100)
    with pytest.raises(ValueError, match="is of h100-sxm, but the hardware is a100-sxm"):
        build_cost(str(file), LLAMA, A100)


def test_errors_name_the_choices() -> None:
    with pytest.raises(
        ValueError, match=r"'h100-smx' is unknown .did you mean 'h100-sxm'[?].; choices"
    ):
        build_cost("h100-smx", LLAMA, H100)
    with pytest.raises(ValueError, match="tp=3 does not divide the 32 attention heads"):
        build_cost("auto", LLAMA, H100, tp=3)
    with pytest.raises(ValueError, match=r"KV dtype 'fp9' is unknown .did you mean 'fp8'"):
        build_cost("auto", LLAMA, H100, kv_dtype="fp9")
    with pytest.raises(ValueError, match="attention_factor=0 must be finite"):
        build_cost("auto", LLAMA, H100, attention_factor=0)


def test_the_profile_of_the_nearest_layer_is_taken() -> None:
    def profile_of(model: str, card: str) -> str:
        return build_cost("auto", load_model(model), load_hardware(card)).name.split(" profile")[0]

    assert profile_of("llama-3.1-8b", "h100-sxm") == "h100-sxm"
    assert profile_of("llama-3.1-70b", "h100-sxm") == "h100-sxm-llama-2-70b"
    assert profile_of("qwen2.5-72b", "a100-sxm") == "a100-sxm-llama-3-70b"
    assert profile_of("qwen3-30b-a3b", "rtx-pro-6000") == "rtx-pro-6000-qwen3-30b-a3b"
    assert profile_of("gpt-oss-20b", "rtx-pro-6000") == "rtx-pro-6000-qwen3-30b-a3b"
    assert profile_of("mixtral-8x7b", "h100-sxm").startswith("h100-sxm")
    assert find_profile("auto", H100).name == "h100-sxm"
    with pytest.raises(ValueError, match="no profile is shipped for t4; there is one for a100-sxm"):
        build_cost("profile", LLAMA, load_hardware("t4"))


def test_a_measured_split_is_not_split_again() -> None:
    whole = load_bundled_profile("h100-sxm")
    half = replace(whole, tp=2)
    deployment = Deployment(LLAMA, H100, tp=2)
    cost = scale_profile(half, deployment, name="half", overlap=False)
    alone = scale_profile(whole, Deployment(LLAMA, H100), name="whole", overlap=False)
    assert deployment.matches(half)
    assert not deployment.matches(whole)
    assert cost.gemm == alone.gemm
    assert cost.attention == alone.attention
    assert cost.head == alone.head


def test_all_reduces_are_those_measured_for_the_number_of_cards() -> None:
    term = load_bundled_profile("h100-sxm").all_reduce["4"]
    cost = build_cost("auto", LLAMA, H100, tp=4).all_reduce
    size, us = next((size, us) for size, us in term.knots if size >= 8192 * 16)
    assert size % 8192 == 0
    assert cost.at(size // 8192) == pytest.approx(64e6 * us, rel=1e-6)
    assumed = build_cost("auto", LLAMA, H100, tp=16).all_reduce
    assert assumed.pieces, "16 cards were not measured: from the link"


def test_experts_of_a_profile_with_experts() -> None:
    model = load_model("qwen3-30b-a3b")
    profile = load_bundled_profile("rtx-pro-6000-qwen3-30b-a3b")
    assert model.experts is not None
    assert profile.experts is not None
    gemm = build_cost("auto", model, load_hardware("rtx-pro-6000")).gemm
    term, layers = profile.experts, model.num_layers
    for tokens in (1, 16, 64):
        read = term.base_us + term.per_expert_us * model.experts.distinct(tokens)
        dense = max(us + slope * tokens for us, slope in profile.gemm.pieces)
        expected = layers * (dense + read + term.per_token_us * tokens)
        assert gemm.at(tokens) == pytest.approx(1e6 * expected, rel=0.02)
    assert Deployment(model, load_hardware("rtx-pro-6000")).matches(profile)


def test_experts_read_more_weights_the_more_tokens_there_are() -> None:
    model = load_model("mixtral-8x7b")
    gemm = build_cost("h100-sxm", model, H100).gemm
    assert model.experts is not None
    assert model.experts.distinct(1) == pytest.approx(2)
    assert gemm.at(1) < gemm.at(4) < gemm.at(16) < gemm.at(4096) < gemm.at(40_000)
    floor_ps = 32e6 * load_bundled_profile("h100-sxm").layer_floor_us
    dense_ps = build_cost("h100-sxm", LLAMA, H100).gemm.at(1) - floor_ps
    share = (model.params.layer_linear - 32 * 6 * model.experts.params_each) / (
        LLAMA.params.layer_linear
    )
    assert gemm.at(1) == pytest.approx(floor_ps + dense_ps * share, rel=0.01)


def test_windows_latents_and_states_have_terms_of_their_own() -> None:
    gemma = build_cost("datasheet", load_model("gemma-3-27b"), H100)
    assert [g.window for g in gemma.attention] == [*[1024] * 6, None]
    assert [g.window_index for g in gemma.attention] == [0, 1, 2, 3, 4, 5, 0]
    near = gemma.step((), 1, 50_000, (1024,) * 6)[0]
    assert near < gemma.step((), 1, 50_000)[0]
    shared = build_cost("datasheet", load_model("gemma-3n-e4b"), H100)
    assert sum(g.decode_ps for g in shared.attention) == 35 * 12_000_000
    latent = build_cost("datasheet", load_model("deepseek-v2-lite"), H100).attention[0]
    expanded = 27 * 16 * (192 + 128) / (32 * 32 * 256)
    llama = build_cost("datasheet", LLAMA, H100).attention[0]
    assert latent.area_fs == pytest.approx(llama.area_fs * expanded, rel=1e-3)
    states = build_cost("datasheet", load_model("qwen3-next-80b-a3b"), H100)
    assert states.decode_run(4, 400).slope_ps > 0


@pytest.mark.parametrize("name", bundled_models())
def test_every_model_has_a_cost_on_every_kind_of_card(name: str) -> None:
    model = load_model(name)
    for card in ("h100-sxm", "t4", "m4-max-128gb", "cpu-laptop"):
        cost = build_cost("auto", model, load_hardware(card))
        one, many = (cost.step((), batch, 100 * batch)[0] for batch in (1, 64))
        assert 0 < one <= many
        assert cost.step([(512, 0)], 0, 0)[0] > 0
