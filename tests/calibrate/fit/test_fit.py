"""From tables to a profile: known coefficients come back, what lacks is assumed and said."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvsim.calibrate.fit import blocks
from kvsim.calibrate.fit.all_reduce_table import all_reduce_table
from kvsim.calibrate.fit.design import from_design, nearest
from kvsim.calibrate.fit.fit import Calibration, fit_profile, mixed_effect
from kvsim.calibrate.fit.gates import gate_of
from kvsim.calibrate.fit.reading import readings
from kvsim.calibrate.sources import read_measurements
from kvsim.calibrate.sources.measurements import Measurements
from kvsim.calibrate.sources.points import Points, no_points
from kvsim.calibrate.sources.request import ReadRequest
from kvsim.sim.cost.datasheet import datasheet_profile
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import dump_profile, parse_profile
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model


def fitted(source: str, path: Path, model: str = "llama-3.1-8b", **more: object) -> Calibration:
    request = ReadRequest((path,), load_model(model), **more)  # type: ignore[arg-type]
    return fit_profile(read_measurements(source, request), "mine")


@pytest.fixture(scope="module")
def calibration(aiconfigurator_tables: Path) -> Calibration:
    return fitted("aiconfigurator", aiconfigurator_tables)


def test_aiconfigurator_to_profile(calibration: Calibration) -> None:
    profile = calibration.profile
    decode = profile.decode_attention
    assert decode.per_token_us == pytest.approx(0.0013, rel=0.02)
    assert decode.per_request_us == pytest.approx(0.12, rel=0.3)
    assert profile.prefill_attention.per_area_us == pytest.approx(2e-5, rel=0.05)
    assert profile.gemm.pieces[0][0] == pytest.approx(12 + 2 * 218e6 / 2.5e6, rel=0.02)
    assert profile.layer_floor_us == pytest.approx(4 * 3, rel=0.05)
    assert profile.all_reduce["2"].knots[0] == (1024, 4.01024)
    for block in ("layer", "decode_attention", "prefill_attention", "decode_step"):
        gate = gate_of(block, "h100-sxm")
        assert gate is not None
        assert gate.passed(profile.hold_out[block]), block
    assert profile.mixed_attention.per_token_us == decode.per_token_us
    assert any("mixed steps: a decode costs" in sentence for sentence in profile.assumed)
    assert any("chunks over past" in sentence for sentence in profile.assumed)
    assert profile.fidelity.endswith("fitted; mixed, overhead assumed")
    assert profile.measured.prefill_past == (0, 0)
    assert profile.measured.mixed_decodes is None
    assert parse_profile(dump_profile(profile), "again") == profile


def test_mixed_batches_have_coefficients_of_their_own(llmservingsim: Path) -> None:
    profile = fitted("llmservingsim", llmservingsim).profile
    assert profile.mixed_attention.per_token_us == pytest.approx(0.0026, rel=0.05)
    assert profile.mixed_attention.per_request_us == pytest.approx(0.5, rel=0.2)
    assert profile.head.pieces[0][0] == pytest.approx(710, rel=0.01)
    assert profile.fidelity == "layer, decode, prefill, mixed, head fitted; overhead assumed"
    assert profile.measured.mixed_decodes == (8, 64)


def test_what_a_source_lacks_comes_from_the_datasheet(vidur: Path) -> None:
    profile = fitted("vidur", vidur, "llama-2-70b", tp=8).profile
    sheet = datasheet_profile(load_hardware("h100-sxm"), shape=profile.model, tp=8)
    assert profile.decode_attention == sheet.decode_attention
    assert profile.head == sheet.head
    assert profile.layer_floor_us == pytest.approx(30, rel=0.02)
    assert profile.fidelity == "layer fitted; decode, prefill, mixed, head, overhead assumed"
    assert profile.measured.batch is None
    assert sum("0.84 of the datasheet bandwidth" in line for line in profile.assumed) == 1


def test_whole_steps_keep_their_sum(splitwise: Path) -> None:
    profile = fitted("splitwise", splitwise, "llama-2-70b", tp=4, hardware="h100-sxm").profile
    layers = profile.model.num_layers
    weights_us = profile.gemm.pieces[0][0] + profile.decode_attention.per_call_us
    step_us = profile.host.per_step_us + layers * weights_us + profile.head.pieces[0][0]
    assert step_us == pytest.approx(40_000, rel=0.01)
    assert layers * profile.decode_attention.per_request_us == pytest.approx(200, rel=0.05)
    assert layers * profile.decode_attention.per_token_us == pytest.approx(1, rel=0.05)
    assert layers * profile.gemm.pieces[1][1] == pytest.approx(100, rel=0.05)
    assert profile.tp == 4
    request = ReadRequest((splitwise,), load_model("llama-2-70b"), 4, "h100-sxm")
    measured = read_measurements("splitwise", request)
    with pytest.raises(ValueError, match=r"is faster than the .* ms that reading the weights"):
        fit_profile(replace(measured, tp=1), "wrong split")


def test_kv_that_fits_the_cache_is_not_fitted(
    calibration: Calibration, aiconfigurator_tables: Path
) -> None:
    request = ReadRequest((aiconfigurator_tables,), load_model("llama-3.1-8b"))
    points = read_measurements("aiconfigurator", request).decode_attention
    read = points["batch"] * points["context"] * 4096
    warm = (read <= 50 << 20) & (read >= 50 << 20 >> 4)
    assert warm.sum() > 10
    fooled = Points(points.loads, np.where(warm, 5, points.us))
    measured = Measurements(
        "h100-sxm", load_model("llama-3.1-8b"), 1, "test", {}, decode_attention=fooled
    )
    found = fit_profile(measured, "fooled").profile.decode_attention
    assert found == calibration.profile.decode_attention


def test_experts_in_the_cache_are_left_out_and_four_batches_held_out() -> None:
    tokens = np.repeat([1.0, 2, 4, 8, 16, 32, 64, 128], 4)
    activated = np.tile([8.0, 16, 64, 128], 8)
    us = 30 + 6 * activated + 0.1 * tokens
    us[activated == 8] = 10
    points = Points({"tokens": tokens, "activated": activated}, us)
    fit = blocks.fit_experts(points, 9e6, 100 << 20)
    assert fit.values["per_expert_us"] == pytest.approx(6, rel=0.02)
    assert fit.hold_out.points == 3 * 4


def test_tables_of_all_reduces_never_fall() -> None:
    sizes = np.array([128.0, 256, 512, 1024])
    term, error = all_reduce_table(Points({"message_bytes": sizes}, np.array([5.0, 4, 6, 9])))
    assert term.knots == ((128, 5.0), (256, 5.0), (512, 6.0), (1024, 9.0))
    assert error.points == 2
    with pytest.raises(ValueError, match="2 message sizes, at least 3"):
        all_reduce_table(Points({"message_bytes": sizes[:2]}, sizes[:2]))


def test_too_few_points_name_the_block() -> None:
    with pytest.raises(ValueError, match="decode_attention: 2 points, at least 4 are needed"):
        blocks.fit_decode(Points({"batch": np.ones(2), "context": np.ones(2)}, np.ones(2)))
    assert no_points("batch").span(np.empty(0)) is None


def test_doubling_the_context_term_of_mixed_steps() -> None:
    profile = datasheet_profile(load_hardware("h100-sxm"))
    without = replace(profile, decode_attention=replace(profile.decode_attention, per_token_us=0.0))
    assert mixed_effect(without) == 0
    assert 0.1 < mixed_effect(profile) < 0.6


def test_a_reading_is_a_fraction(calibration: Calibration) -> None:
    rows = {(row.block, row.name): row for row in readings(calibration)}
    assert rows["decode_attention", "per_token_us"].says == "0.95 of bandwidth"
    assert rows["layer", "g0"].says.endswith("of bandwidth")
    assert rows["layer", "g3"].unit == "us/token"
    assert rows["head", "per_request_us"].says in ("hidden behind reading", "0.71 of peak")


def test_gates_are_those_of_the_cost_model() -> None:
    gate = gate_of("prefill_attention", "l40s")
    assert gate == (0.09, 0.30)
    assert gate_of("prefill_attention", "h100-sxm") == (0.05, 0.20)
    assert gate_of("head", "l40s") is None
    assert not gate_of("decode_step", "l40s").passed(HoldOut(0.04, 0.11, 9))  # type: ignore[union-attr]


def test_the_design_takes_the_nearest_points_and_is_judged_on_the_rest(llmservingsim: Path) -> None:
    request = ReadRequest((llmservingsim,), load_model("llama-3.1-8b"))
    measured = read_measurements("llmservingsim", request)
    chosen = nearest(measured.layer, ("tokens",), ((1,), (17,), (16,)))
    assert measured.layer["tokens"][chosen].tolist() == [1, 16]
    errors = from_design(measured)
    assert set(errors) == {"layer", "decode_attention", "prefill_attention", "mixed_attention"}
    assert errors["layer"].points == 13 - 8
    assert all(found.median < 0.06 for found in errors.values())
