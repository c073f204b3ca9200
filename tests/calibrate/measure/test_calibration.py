"""From points to a profile: known costs are found again, and the file says all there is."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.calibrate.calibration import Calibration, Wish, plan_calibration, raw_path
from kvsim.calibrate.fit.prediction import head_us, predicted_us
from kvsim.calibrate.fit.term_table import attention_rates, copy_rates, term_rows
from kvsim.calibrate.measure.points import Limits, flex
from kvsim.calibrate.profile_page import compared_points, profile_page
from kvsim.calibrate.profile_use import cost_of_profile
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import dump_profile, load_profile
from kvsim.sim.hardware import load_hardware
from tests.calibrate.measure.conftest import known_point_us

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.calibrate.measure.points import Point
    from kvsim.sim.cost.profile import Profile
    from tests.calibrate.measure.conftest import FakeDevice


def nothing(_done: int, _total: int) -> None:
    """Progress that nobody watches."""


def test_known_costs_are_found_again(calibration: Calibration, tmp_path: Path) -> None:
    profile, terms = calibration.run(tmp_path / "p.json", nothing)
    assert sorted(profile.gemm.pieces) == [
        pytest.approx((150, 0.5), rel=0.02),
        pytest.approx((200, 0.1), rel=0.02),
    ]
    decode = profile.decode_attention
    found = (decode.per_call_us, decode.per_request_us, decode.per_token_us)
    assert found == pytest.approx((12, 0.2, 0.002), rel=0.01)
    mixed = profile.mixed_attention
    assert (mixed.per_request_us, mixed.per_token_us) == pytest.approx((0.3, 0.005), rel=0.01)
    assert sorted(profile.head.pieces) == [
        pytest.approx((300, 6), rel=0.01),
        pytest.approx((500, 2), rel=0.01),
    ]
    assert (profile.host.per_step_us, profile.host.per_request_us) == pytest.approx((60, 3))
    assert terms.small.coefficients[0] == pytest.approx((8, 0.02))
    assert all(error.median < 0.01 for error in profile.hold_out.values())
    assert {error.points for error in profile.hold_out.values()} == {4}
    factors = {"contiguous": 0.8, "paged-8": 1.2, "paged-16": 1, "paged-32": 1, "paged-64": 1}
    assert profile.attention_factor == pytest.approx(factors)
    assert profile.layer_floor_us == pytest.approx(8)


def test_the_time_left_is_that_of_what_is_missing(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """It starts at 0, and what an earlier session measured counts in neither number."""
    told: list[tuple[int, int]] = []
    calibration.run(tmp_path / "whole.json", lambda *seconds: told.append(seconds))
    (first, in_all), (last, _) = told[0], told[-1]
    assert first == 0
    assert in_all - 1 <= last <= in_all
    assert len(told) == 1 + len(calibration.points)
    told.clear()
    calibration.run(tmp_path / "whole.json", lambda *seconds: told.append(seconds))
    assert told == [(0, 1)], "nothing was missing"


def test_noise_moves_terms_little_and_errors_are_stated(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    device.noise = 0.05
    profile, terms = calibration.run(tmp_path / "p.json", nothing)
    assert profile.decode_attention.per_token_us == pytest.approx(0.002, rel=0.1)
    (errors,) = terms.decode.standard_errors
    assert 0 < errors[2] < 0.1 * 0.002
    assert max(error.median for error in profile.hold_out.values()) < 0.08


def test_a_block_that_does_not_follow_the_form_has_its_error(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """Held-out decodes cost half more than the others."""
    device.cost_us = lambda point: (
        known_point_us(point) * (1.5 if point.key.startswith("decode hold-out") else 1)
    )
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    poor = [block for block, error in profile.hold_out.items() if error.median > 0.01]
    assert poor == ["decode_attention"]
    assert profile.hold_out["decode_attention"].median == pytest.approx(1 / 3, abs=0.01)


def test_a_concave_layer_becomes_a_table(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """Square roots are no maximum of affine pieces; between points the table is linear."""

    device.cost_us = lambda point: (
        1000 * point.loads["tokens"] ** 0.5 if point.block == "layer" else known_point_us(point)
    )
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    assert profile.gemm.pieces == ()
    assert dict(profile.gemm.knots)[256] == pytest.approx(16_000)
    assert len(profile.gemm.knots) == 11


def test_one_token_far_off_both_pieces_is_a_table(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """A CPU multiplies one row in half the time of two; all other points fit."""
    device.cost_us = lambda point: (
        known_point_us(point) * (0.5 if point.key == "layer fit tokens=1" else 1)
    )
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    knots = dict(profile.gemm.knots)
    assert knots[1] == pytest.approx(knots[2] / 2, rel=0.01)


def test_a_concave_head_becomes_a_table(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """A CPU takes twice as long for four rows as for one and little more for sixteen."""

    def head_steps(point: Point) -> float:
        if point.block != "head":
            return known_point_us(point)
        batch = point.loads["batch"]
        return 400 if batch == 1 else 900 + 10 * batch

    device.cost_us = head_steps
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    assert [batch for batch, _ in profile.head.knots] == [1, 2, 4, 8, 16, 64, 256]
    assert profile.head.pieces == ()
    assert profile.hold_out["head"].p90 < 0.01
    assert head_us(profile, 3) == pytest.approx(930, rel=0.01)
    cost = cost_of_profile(_written(profile, tmp_path), None)
    assert cost.head.at(3) == pytest.approx(930e6, rel=0.01)


def test_the_smallest_batches_determine_a_head(device: FakeDevice, tmp_path: Path) -> None:
    """Two batches, two points: the form goes through both."""
    planned = plan_calibration(Wish("cpu", "llama-3.1-8b", "bf16", quick=True, max_batch=2))
    profile, _ = replace(planned, bench=device, timer=device).run(tmp_path / "p.json", nothing)
    assert (head_us(profile, 1), head_us(profile, 2)) == pytest.approx((502, 504), rel=0.01)


def _written(profile: Profile, folder: Path) -> Path:
    path = folder / "written.json"
    path.write_text(dump_profile(profile))
    return path


def test_the_file_holds_all_there_is(calibration: Calibration, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    profile, _ = calibration.run(path, nothing)
    path.write_text(dump_profile(profile))
    again = load_profile(path)
    assert dump_profile(again) == dump_profile(profile)
    measurement = again.measurement
    assert len(measurement["points"]) == len(calibration.points)
    for key in ("date", "setup", "anchor_us", "standard_errors", "condition"):
        assert key in measurement
    for key in ("product", "driver", "versions", "cache_bytes", "total_bytes"):
        assert key in measurement["setup"]["device"]
    assert again.measured.batch == (1, 256)
    assert again.measured.total_context is not None
    assert again.measured.total_context[0] <= 256
    assert again.measured.step_tokens == (1, 2048)
    assert raw_path(path).name == "p.json.points"


def test_the_profile_is_a_card_and_a_step_cost(calibration: Calibration, tmp_path: Path) -> None:
    """A step inside the measured range takes what its parts were measured to take."""
    path = tmp_path / "p.json"
    profile, _ = calibration.run(path, nothing)
    path.write_text(dump_profile(profile))
    card = load_hardware(str(path))
    assert (card.kind, card.profile) == ("cpu", str(path))
    cost = cost_of_profile(path)
    step_ps, inside = cost.step([], 64, 64 * 2048)[:2]
    layer_us = 200 + 0.1 * 64 + 12 + 0.2 * 64 + 0.002 * 64 * 2048
    truth_us = 32 * layer_us + 500 + 2 * 64 + 60 + 3 * 64
    assert step_ps / 1e6 == pytest.approx(truth_us, rel=0.01)
    assert inside
    assert not cost.step([], 300, 300 * 100)[1], "more requests than were measured"


def test_terms_read_as_bandwidth_and_peak(calibration: Calibration, tmp_path: Path) -> None:
    profile, terms = calibration.run(tmp_path / "p.json", nothing)
    card = load_hardware("h100-sxm")
    rows = {row.name: row for row in term_rows(profile, terms, card, calibration.shape)}
    assert rows["a2"].value == pytest.approx(0.002, rel=0.01)
    assert rows["a2"].reading == "2048.0 GB/s, 0.61 of bandwidth", "4,096 B in 2 ns"
    assert rows["h3"].reading == "175.11 TFLOP/s, 0.18 of peak", "2 x 525 M operations in 6 us"
    assert rows["m2"].reading == "2.50 x a2"


def test_copies_are_a_latency_and_a_rate(calibration: Calibration, tmp_path: Path) -> None:
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    one_piece, by_block = sorted(copy_rates(profile, 65_536), key=lambda rate: rate.name)[::-1]
    assert (one_piece.name, by_block.name) == ("copy, one piece", "copy, block by block")
    assert one_piece.latency_us == pytest.approx(5)
    assert one_piece.bytes_per_s == pytest.approx(2 * 65_536 / 1e-6)
    assert by_block.bytes_per_s == pytest.approx(2 * 65_536 / 4e-6)


def test_attention_of_each_layout_is_held_against_the_copy(
    calibration: Calibration, tmp_path: Path
) -> None:
    limits = Limits(max_total_context=1 << 15)
    points = (*calibration.points, flex(limits))
    profile, _ = replace(calibration, points=points).run(tmp_path / "p.json", nothing)
    rates = {rate.name: rate for rate in attention_rates(profile, 4096)}
    assert list(rates) == [
        "contiguous, SDPA", "paged-8", "paged-16", "paged-32", "paged-64",
        "contiguous, FlexAttention",
    ]  # fmt: skip
    paged = rates["paged-16"]
    assert paged.us == pytest.approx(12 + 0.2 * 16 + 0.002 * 32768)
    assert paged.bytes_per_s == pytest.approx(4096 * 32768 / paged.us * 1e6)
    assert paged.copy_share == pytest.approx(paged.bytes_per_s / (2 * 16 * 4096 / 1e-6))
    assert rates["contiguous, FlexAttention"].us == pytest.approx(0.9 * paged.us, rel=1e-4)
    assert not any("Flex" in name for name in profile.attention_factor), "no layout of an engine"


def test_the_page_shows_every_point_that_has_a_term(
    calibration: Calibration, tmp_path: Path
) -> None:
    profile, _ = calibration.run(tmp_path / "p.json", nothing)
    rows = compared_points(profile)
    blocks = {"small", "layout", "copy"}
    assert len(rows) == sum(point.block not in blocks for point in calibration.points)
    assert sum(row.held_out for row in rows) == 20
    for point in calibration.points:
        assert (predicted_us(profile, point) is None) == (point.block in blocks)
    page = "".join(profile_page(profile))
    assert "decode, held out" in page
    assert "<dt>spread of repeats</dt><dd>0.0 % apart at the median point</dd>" in page
    assert "Median of absolute errors" not in page
    assert '"title":{"text":"measured (s, logarithmic)"' in page
    assert re.search(
        r'"text":"fitted \(s, logarithmic\)","standoff":6}[^}]*"automargin":true', page
    )
    assert '"100 us",' in page
    assert '"1 ms",' in page
    assert not re.search(r"<script[^>]*\ssrc=", page), "opens without a network"
    poor = replace(profile, hold_out={"layer": HoldOut(0.357, 0.517, 4)})
    cells = ("35.7/51.7 %", "4", "5/20 % MISSED warning: above 10 %")
    row = '<th scope="row">layer</th>' + "".join(f"<td>{cell}</td>" for cell in cells)
    assert row in "".join(profile_page(poor))
    with pytest.raises(ValueError, match="holds no raw points"):
        compared_points(replace(profile, measurement={}))


def test_a_rank_of_several_is_a_narrower_layer() -> None:
    one, rank = (plan_calibration(Wish("cpu", "llama-3.1-8b", "bf16", tp=tp)) for tp in (1, 4))
    assert rank.shape.num_heads * 4 == one.shape.num_heads
    assert rank.shape.num_kv_heads * 4 == one.shape.num_kv_heads
    assert rank.shape.layer_weights * 4 == one.shape.layer_weights


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("cpu", "qwen3-30b-a3b"), "qwen3-30b-a3b is not measured: .*128 routed experts"),
        (Wish("cpu", "gemma-2-2b"), "gemma-2-2b is not measured: its layers are of the kinds"),
        (Wish("cpu", "opt-125m"), "opt-125m is not measured: its layers are not q/k/v"),
        (Wish("cpu", dtype="fp8"), "--dtype 'fp8' is not measured; choices: bf16, fp16, fp32"),
        (Wish("cpu", "llama-3.1-8b", tp=3), "tp=3 does not divide"),
        (Wish("cpu", block_size=0), "--block-size is 0"),
        (Wish("cpu", max_batch=1), "max_batch is 1; it must be at least 2"),
        (Wish("cpu", max_context=0), "max_context is 0; it must be at least 512"),
        (Wish("cpu", max_step_tokens=0), "max_step_tokens is 0; it must be at least 128"),
        (Wish("cpu", ""), "model '' is neither a file nor a bundled model"),
        (Wish("cpu", dtype=""), "--dtype '' is not measured; choices"),
        (Wish("cpu", max_batch=10**30), "--max-batch is 10{30}; it must be a whole number up to"),
        (Wish("cpu", seed=10**30), "--seed is 10{30}; it must be a whole number from 0 up to"),
        (Wish("tpu"), "device 'tpu' is not there; torch sees: .*cpu"),
    ],
)
def test_what_is_not_measured_is_refused_by_name(wish: Wish, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_calibration(wish)


@pytest.mark.parametrize("name", [field.name for field in fields(Wish)])
def test_a_wish_of_a_wrong_kind_is_one_sentence(name: str) -> None:
    for odd in ([1], {}, "nope", b"x", -1, object(), float("nan")):
        wish: Any = {"device": "cpu", name: odd}
        with pytest.raises(ValueError, match=name.replace("_", "[-_]")):
            plan_calibration(Wish(**wish))


def test_the_dry_run_counts_what_the_session_takes(
    calibration: Calibration, device: FakeDevice, tmp_path: Path
) -> None:
    """On a device of constant rates; how near it comes on a real one is told in the docs."""
    rates = calibration.rates()
    before_s = device.now_s()
    calibration.run(tmp_path / "p.json", nothing)
    took_s = device.now_s() - before_s
    estimate_s = sum(calibration.seconds_of(point, rates) for point in calibration.points)
    setup_s = 0.03 * len(calibration.points)
    assert calibration.seconds(rates) == pytest.approx(1 + estimate_s), "a second for the anchor"
    assert estimate_s - setup_s < 20 * took_s
