"""Profile files: round trip, strictness, and what the shipped ones say."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvsim.sim.cost.profile_file import (
    bundled_profiles,
    dump_profile,
    load_bundled_profile,
    load_profile,
    parse_profile,
)


@pytest.fixture
def values() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(dump_profile(load_bundled_profile("h100-sxm")))
    return data


def test_the_shipped_profiles() -> None:
    cards = {"a100-sxm", "h100-sxm", "l40s", "rtx-4090", "rtx-pro-6000"}
    assert cards <= set(bundled_profiles()), "each card's 8B profile bears the card's name"
    for name in bundled_profiles():
        profile = load_bundled_profile(name)
        assert profile.name == name
        assert name in {profile.hardware, f"{profile.hardware}-{profile.model.name}"}
        assert "assumed" in profile.fidelity
        assert {"layer", "decode_attention", "prefill_attention"} <= set(profile.hold_out)
        assert profile.measured.prefill_tokens is not None
        assert (profile.measured.mixed_decodes is None) == any(
            sentence.startswith("mixed steps: ") for sentence in profile.assumed
        )


def test_numbers_of_the_h100_profile_are_physical() -> None:
    profile = load_bundled_profile("h100-sxm")
    bandwidth_us, peak_us = 3.35e6, 989e6
    weights_us, flop_us = profile.gemm.pieces[0][0], profile.gemm.pieces[1][1]
    assert 0.7 < 2 * profile.model.layer_params / weights_us / bandwidth_us < 0.9
    assert 0.6 < 2 * profile.model.layer_params / flop_us / peak_us < 0.9
    assert 10 < profile.decode_attention.per_call_us < 20
    assert 0.85 < 4096 / profile.decode_attention.per_token_us / bandwidth_us < 1
    assert profile.host.per_step_us == 300


def test_a_file_comes_back_equal(tmp_path: Path) -> None:
    profile = load_bundled_profile("a100-sxm")
    file = tmp_path / "mine.json"
    file.write_text(dump_profile(profile), encoding="utf-8")
    assert load_profile(file) == profile


def test_what_a_profile_of_one_card_and_a_dense_model_may_leave_out(
    values: dict[str, Any],
) -> None:
    del values["tp"], values["experts"], values["all_reduce"], values["model"]["num_experts"]
    profile = parse_profile(json.dumps(values), "mine")
    assert (profile.tp, profile.experts, profile.all_reduce) == (1, None, {})
    assert profile.model.num_experts == 0


def test_factors_by_memory_layout_are_optional_and_come_back(values: dict[str, Any]) -> None:
    assert load_bundled_profile("h100-sxm").attention_factor == {}, "none was measured yet"
    del values["attention_factor"]
    assert parse_profile(json.dumps(values), "x") == load_bundled_profile("h100-sxm")
    values["attention_factor"] = {"contiguous": 1, "paged-16": 1.25}
    profile = parse_profile(json.dumps(values), "x")
    assert profile.attention_factor == {"contiguous": 1, "paged-16": 1.25}
    assert parse_profile(dump_profile(profile), "x") == profile


def test_tiles_and_requests_are_written_only_where_they_cost_something(
    values: dict[str, Any],
) -> None:
    assert set(values["gemm"]) == {"pieces", "knots"}
    assert "reach_per_request_us" not in values["prefill_attention"]
    profile = load_bundled_profile("a100-sxm")
    assert (profile.gemm.tile_tokens, profile.gemm.per_tile_us > 0) == (128, True)
    told = json.loads(dump_profile(profile))
    assert told["gemm"]["tile_tokens"] == 128
    assert told["prefill_attention"]["reach_per_request_us"] > 0


def broken(values: dict[str, Any], path: str, value: object) -> str:
    *outer, last = path.split(".")
    table = values
    for key in outer:
        table = table[key]
    if value is None and last in table and path != "measured":
        del table[last]
    else:
        table[last] = value
    return json.dumps(values)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("host.per_step_us", float("nan"), "host: per_step_us=nan must be finite and >= 0"),
        ("host.per_step_us", -1, "host: per_step_us=-1 must be finite and >= 0"),
        ("host.per_step_us", "3", "host: per_step_us='3' is not a number"),
        ("host.per_step_us", True, "host: per_step_us=True is not a number"),
        ("host.per_step_us", None, "host: 'per_step_us' is missing"),
        ("host.per_stepp_us", 1, "host: key 'per_stepp_us' is unknown .did you mean 'per_step_us'"),
        ("head", 3, "head: must be an object, got 3"),
        ("gemm.pieces", [], "needs at least one piece"),
        ("gemm.pieces", [[1, 2, 3]], "must be two numbers"),
        ("gemm.knots", [[4, 1], [2, 3]], "knots must rise in tokens"),
        ("gemm.knots", [[1, 5], [2, 3]], "knots must not fall in time"),
        ("gemm.tile_tokens", 0, "gemm: tile_tokens=0 must be at least 1"),
        ("gemm.per_tile_us", -1, "gemm: per_tile_us=-1 must be finite and >= 0"),
        (
            "gemm",
            {"pieces": [], "knots": [[1, 2], [2, 3]], "per_tile_us": 1},
            "gemm: per_tile_us=1 goes with pieces, not with knots",
        ),
        (
            "all_reduce.2",
            {"pieces": [[1, 2]], "knots": [], "per_tile_us": 1},
            "all_reduce: 2: per_tile_us is of tokens",
        ),
        ("model.num_layers", 1.5, "model: num_layers=1.5 is not a whole number"),
        *(
            (f"model.{size}", 0, f"model: {size}=0 must be at least 1")
            for size in ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        ),
        ("model.vocab_size", -0.0, "model: vocab_size=-0.0 must be at least 1"),
        ("measured.batch", [9, 1], r"measured: batch=\(9, 1\) is empty"),
        ("kernels.gemm", 4, "kernels: gemm=4 is not a string"),
        ("assumed", "all", "assumed: must be a list"),
        ("attention_factor", [1], "attention_factor: must be an object"),
        ("attention_factor.paged-16", 0, "attention_factor: paged-16=0 must be above 0"),
        ("attention_factor.paged-16", "x", "attention_factor: paged-16='x' is not a number"),
        ("measurement", {"setup": 5}, "measurement: setup: must be an object, got 5"),
        ("measurement", {"setup": {"device": []}}, "setup: device: must be an object, got"),
        ("measurement", {"points": {}}, "measurement: points: must be a list, got {}"),
        ("measurement", {"points": [3]}, r"measurement: points\[0\]: must be an object, got 3"),
        ("measurement", {"setup": {"device": {"product": 1}}}, "device: product=1 is not a string"),
        ("gemm.tile_tokens", 10**400, "gemm: tile_tokens=1000+ is too large; at most 92233"),
        ("gemm.per_tile_us", 10**400, "gemm: per_tile_us=1000+ is too large"),
        ("prefill_attention.reach_per_past_us", 10**400, "reach_per_past_us=1000+ is too large"),
        ("host.per_step_us", -(10**400), "host: per_step_us=-1000+ must be finite and >= 0"),
        ("host.per_step_us", float("inf"), "host: per_step_us=inf must be finite and >= 0"),
        ("tp", 1e300, r"tp=1e\+300 is too large"),
        ("format", "kvsim-profile/9", "this version reads 'kvsim-profile/1'"),
        ("source", None, "'source' is missing"),
        ("tp", 0, "tp=0 must be at least 1"),
        ("experts", 3, "experts: must be an object"),
        ("all_reduce.1", {}, "all_reduce: '1' is not a number of cards"),
        ("all_reduce.2", {}, "all_reduce: 2: 'pieces' is missing"),
        ("hold_out.layer.median", -1, "hold_out: layer: median=-1 must be finite and >= 0"),
    ],
)
def test_what_is_wrong_is_named(
    values: dict[str, Any], path: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_profile(broken(values, path, value), "profile x")


POINT = {"block": "decode", "role": "fit", "loads": {"batch": 1, "context": 2}, "times_us": [2.5],
         "rotated_bytes": 1, "discarded": 0, "anchor_us": 100.0}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        *((key, None, f"{key!r} is missing: .*calibrate again") for key in POINT),
        ("block", 1, "block=1 is not a string"),
        ("role", "seen", "role='seen' is unknown; choices: fit, hold-out"),
        ("loads", [1], "loads: must be an object"),
        ("loads", {"batch": 1, "context": 1.5}, "loads: context=1.5 is not a whole number"),
        ("times_us", [], "times_us is empty"),
        ("times_us", [0], "times_us=0 must be above 0"),
        ("times_us", "2", "times_us: must be a list"),
        ("rotated_bytes", -1, "rotated_bytes=-1 must be finite"),
        ("discarded", 0.5, "discarded=0.5 is not a whole number"),
        ("anchor_us", "1", "anchor_us='1' is not a number"),
    ],
)
def test_damaged_points_are_named_wherever_a_profile_is_read(
    values: dict[str, Any], key: str, value: object, message: str
) -> None:
    whole = [POINT, POINT]
    text = broken(values, "measurement", {"points": whole})
    assert parse_profile(text, "x").measurement == {"points": whole}
    row = {name: it for name, it in {**POINT, key: value}.items() if it is not None}
    text = broken(values, "measurement", {"points": [POINT, row]})
    with pytest.raises(ValueError, match=rf"profile x: measurement: points\[1\]: {message}"):
        parse_profile(text, "profile x")


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "null", '{"format": 1}'])
def test_what_is_no_profile_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="profile x"):
        parse_profile(text, "profile x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_profile(tmp_path / "none.json")


@pytest.mark.parametrize("odd", [None, [], 3, 1.5, b"x"])
def test_what_is_no_name_is_told(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"path of a profile is .*; it must be "):
        load_profile(odd)
