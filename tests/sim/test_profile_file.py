"""Profile files: round trip, strictness, and what the shipped ones say."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvsim.sim.profile_file import (
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
    assert {"a100-sxm", "h100-sxm"} <= set(bundled_profiles())
    for name in bundled_profiles():
        profile = load_bundled_profile(name)
        assert profile.name == profile.hardware == name
        assert profile.assumed
        assert "assumed" in profile.fidelity
        assert profile.measured.prefill_tokens is None


def test_numbers_of_the_h100_profile() -> None:
    profile = load_bundled_profile("h100-sxm")
    assert profile.gemm.pieces[:2] == ((186.0, 0.13), (154.0, 0.30))
    assert profile.decode_attention.per_call_us == 12.2
    assert profile.decode_attention.per_request_us == pytest.approx(0.0145 * 8)
    kv_bytes_per_token_and_layer = 2 * 8 * 128 * 2
    bandwidth = kv_bytes_per_token_and_layer / profile.decode_attention.per_token_us * 1e6
    assert bandwidth / 3.35e12 == pytest.approx(0.91, rel=1e-4)
    assert profile.host.per_step_us == 300


def test_a_file_comes_back_equal(tmp_path: Path) -> None:
    profile = load_bundled_profile("a100-sxm")
    file = tmp_path / "mine.json"
    file.write_text(dump_profile(profile), encoding="utf-8")
    assert load_profile(file) == profile


def test_factors_by_memory_layout_are_optional_and_come_back(values: dict[str, Any]) -> None:
    assert load_bundled_profile("h100-sxm").attention_factor == {}, "none was measured yet"
    del values["attention_factor"]
    assert parse_profile(json.dumps(values), "x") == load_bundled_profile("h100-sxm")
    values["attention_factor"] = {"contiguous": 1, "paged-16": 1.25}
    profile = parse_profile(json.dumps(values), "x")
    assert profile.attention_factor == {"contiguous": 1, "paged-16": 1.25}
    assert parse_profile(dump_profile(profile), "x") == profile


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
        ("host.per_stepp_us", 1, "host: unknown key 'per_stepp_us'; nearest is 'per_step_us'"),
        ("head", 3, "head: must be an object, got 3"),
        ("gemm.pieces", [], "needs at least one piece"),
        ("gemm.pieces", [[1, 2, 3]], "must be two numbers"),
        ("gemm.knots", [[4, 1], [2, 3]], "knots must rise in tokens"),
        ("gemm.knots", [[1, 5], [2, 3]], "knots must not fall in time"),
        ("model.num_layers", 1.5, "model: num_layers=1.5 is not a whole number"),
        ("measured.batch", [9, 1], r"measured: batch=\(9, 1\) is empty"),
        ("kernels.gemm", 4, "kernels: gemm=4 is not a string"),
        ("assumed", "all", "assumed: must be a list"),
        ("attention_factor", [1], "attention_factor: must be an object"),
        ("attention_factor.paged-16", 0, "attention_factor: paged-16=0 must be above 0"),
        ("attention_factor.paged-16", "x", "attention_factor: paged-16='x' is not a number"),
        ("format", "kvsim-profile/9", "this version reads 'kvsim-profile/1'"),
        ("source", None, "'source' is missing"),
    ],
)
def test_what_is_wrong_is_named(
    values: dict[str, Any], path: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_profile(broken(values, path, value), "profile x")


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "null", '{"format": 1}'])
def test_what_is_no_profile_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="profile x"):
        parse_profile(text, "profile x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_profile(tmp_path / "none.json")
