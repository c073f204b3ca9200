"""A longer form comes back where it made the points, and not where it did not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.calibrate.fit import blocks
from kvsim.calibrate.fit.fit import fit_profile
from kvsim.calibrate.fit.hold_out import predict_unseen
from kvsim.calibrate.fit.max_affine import fit_max_affine
from kvsim.calibrate.fit.shortest_form import fit_shortest
from kvsim.calibrate.sources.measurements import Measurements
from kvsim.calibrate.sources.points import Points
from kvsim.sim.models import load_model

TOKENS = np.unique(np.concatenate([2.0 ** np.arange(11), np.arange(48, 1100, 24)]))


def noise(count: int, spread: float) -> np.ndarray:
    return np.exp(np.random.default_rng(3).normal(0, spread, count))


def layer_in_tiles(tile: int) -> Points:
    us = np.maximum(450 + 0.4 * TOKENS, 60 + 0.3 * TOKENS + 1.4 * tile * np.ceil(TOKENS / tile))
    return Points({"tokens": TOKENS}, us * noise(len(TOKENS), 0.005))


@pytest.mark.parametrize("tile", blocks.TILES)
def test_tiles_come_back_from_noisy_points(tile: int) -> None:
    fit = blocks.fit_layer(layer_in_tiles(tile))
    assert blocks.tile_of(fit) == tile
    assert fit.values["per_tile_us"] == pytest.approx(1.4 * tile, rel=0.05)
    assert fit.values["g0"] == pytest.approx(450, rel=0.02)
    assert fit.hold_out.p90 < 0.03


def test_points_without_tiles_keep_their_two_pieces() -> None:
    us = np.maximum(450 + 0.4 * TOKENS, 60 + 1.7 * TOKENS) * noise(len(TOKENS), 0.02)
    fit = blocks.fit_layer(Points({"tokens": TOKENS}, us))
    assert blocks.tile_of(fit) == 1
    assert "per_tile_us" not in fit.values


def prefills(requests: np.ndarray, per_request_us: float) -> Points:
    chunk, requests = (grid.ravel() for grid in np.meshgrid([16.0, 64, 256, 1024], requests))
    tokens, area = requests * chunk, requests * chunk**2 / 2
    reach = 9 + 0.02 * tokens + per_request_us * requests
    loads = {"requests": requests, "chunk": chunk, "past": np.zeros(len(chunk))}
    us = np.maximum(reach, 10 + 0.025 * tokens + 9e-5 * area)
    return Points(loads, us * noise(len(us), 0.01))


@pytest.mark.slow
def test_a_time_for_each_request_of_a_call_comes_back() -> None:
    fit = blocks.fit_prefill(prefills(np.array([1.0, 4, 16, 64]), 1.8))
    assert fit.values["reach_per_request_us"] == pytest.approx(1.8, rel=0.05)
    assert fit.values["per_area_us"] == pytest.approx(9e-5, rel=0.03)


@pytest.mark.slow
def test_a_past_token_that_nobody_measured_is_as_dear_as_in_the_shortest_form() -> None:
    model = load_model("llama-3.1-8b")
    points = prefills(np.array([1.0, 4, 16, 64]), 1.8)
    measured = Measurements("l40s", model, 1, "test", {}, prefill_attention=points)
    calibration = fit_profile(measured, "mine")
    term, (fit, *_) = calibration.profile.prefill_attention, calibration.fits
    assert fit.chosen == 1
    plain = fit_max_affine(blocks.prefill_forms(points)[0].pieces, points.us).coefficients[0][1]
    assert term.reach_per_token_us < plain
    assert term.reach_per_token_us + term.reach_per_past_us == pytest.approx(plain, rel=1e-4)
    assert any("a token of past as dear" in line for line in calibration.profile.assumed)


@pytest.mark.slow
def test_a_past_token_that_was_measured_is_fitted() -> None:
    grids = np.meshgrid([1.0, 4, 16, 64], [16.0, 64, 256], [0.0, 500, 8000])
    requests, chunk, past = (grid.ravel() for grid in grids)
    area = requests * (chunk * past + chunk**2 / 2)
    us = np.maximum(
        9 + requests * (1.8 + 0.02 * chunk + 0.03 * past),
        10 + 0.025 * requests * chunk + 9e-5 * area,
    )
    points = Points({"requests": requests, "chunk": chunk, "past": past}, us * noise(36, 0.01))
    fit = blocks.fit_prefill(points)
    past_us = fit.values["reach_per_token_us"] + fit.values.get("reach_per_past_us", 0.0)
    assert past_us == pytest.approx(0.03, rel=0.05)


def test_calls_of_one_request_cannot_tell_it_from_their_floor() -> None:
    fit = blocks.fit_prefill(prefills(np.ones(3), 1.8))
    assert fit.chosen == 0
    assert fit.values["reach_us"] == pytest.approx(9 + 1.8, rel=0.05)


@pytest.mark.slow
def test_a_point_does_not_help_to_choose_the_form_that_predicts_it() -> None:
    points = layer_in_tiles(128)
    forms = [form.pieces for form in blocks.layer_forms(points)]
    unseen = predict_unseen(forms, points.us)
    fold = np.random.default_rng(1).permutation(len(TOKENS)) % 4
    for number in range(4):
        wild = np.where(fold == number, points.us * 7, points.us)
        again = predict_unseen(forms, wild)
        assert (again[fold == number] == unseen[fold == number]).all()


def test_a_longer_form_that_few_points_cannot_carry_is_passed_over() -> None:
    short, long = [np.ones((2, 1))], [np.array([[1.0, 0, 1], [1, 5, 1]])]
    chosen, fit = fit_shortest([short, long], np.array([1.0, 6]))
    assert (chosen, len(fit.coefficients[0])) == (0, 1)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.floats(0.6, 1.6), min_size=len(TOKENS), max_size=len(TOKENS)))
def test_no_fitted_layer_is_faster_with_more_tokens(factors: list[float]) -> None:
    points = layer_in_tiles(128)
    chosen, fit = fit_shortest(
        [form.pieces for form in blocks.layer_forms(points)], points.us * np.array(factors)
    )
    every = Points({"tokens": np.arange(1.0, 3000)}, np.ones(2999))
    us = fit.predict(blocks.layer_forms(every)[chosen].pieces)
    assert (np.diff(us) >= 0).all()
