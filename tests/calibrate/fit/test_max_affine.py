"""Fits recover what made the points, and say how sure they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.calibrate.fit.hold_out import hold_out_of, predict_unseen
from kvsim.calibrate.fit.loads import decode_pieces, prefill_pieces, token_pieces
from kvsim.calibrate.fit.max_affine import fit_max_affine
from kvsim.calibrate.sources.points import Points

TOKENS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096], float)


def noise(count: int, spread: float) -> np.ndarray:
    return np.exp(np.random.default_rng(3).normal(0, spread, count))


def decode_grid() -> Points:
    batch, context = np.meshgrid([1.0, 8, 64, 256], [128.0, 1024, 8192, 65536])
    return Points({"batch": batch.ravel(), "context": context.ravel()}, np.ones(16))


def test_two_pieces_come_back_from_noisy_points() -> None:
    us = np.maximum(160 + 0.15 * TOKENS, 10 + 0.55 * TOKENS) * noise(len(TOKENS), 0.02)
    fit = fit_max_affine(token_pieces(Points({"tokens": TOKENS}, us)), us)
    (g0, _), (_, g3) = fit.coefficients
    assert g0 == pytest.approx(160, rel=0.03)
    assert g3 == pytest.approx(0.55, rel=0.05)
    assert fit.standard_errors[0][0] / g0 < 0.03
    assert 1 < fit.condition < 1000


@settings(max_examples=25)
@given(st.floats(5, 40), st.floats(0.02, 1), st.floats(5e-4, 0.01))
def test_decode_attention_comes_back_exactly_without_noise(a0: float, a1: float, a2: float) -> None:
    grid = decode_grid()
    us = a0 + a1 * grid["batch"] + a2 * grid["batch"] * grid["context"]
    (found,) = fit_max_affine(decode_pieces(grid), us).coefficients
    assert found == pytest.approx((a0, a1, a2), rel=0.01)


def test_prefill_comes_back_with_its_two_branches() -> None:
    chunk, past = (grid.ravel() for grid in np.meshgrid([16.0, 128, 512, 2048], [0.0, 1e3, 16e3]))
    points = Points({"requests": np.ones(12), "chunk": chunk, "past": past}, np.ones(12))
    area = chunk * past + chunk**2 / 2
    us = np.maximum(8 + 0.03 * (past + chunk), 2 + 0.04 * chunk + 1e-4 * area)
    (reach, per_reach), (_, _, per_area) = fit_max_affine(
        prefill_pieces(points), us * noise(12, 0.005)
    ).coefficients
    assert (reach, per_reach, per_area) == pytest.approx((8, 0.03, 1e-4), rel=0.05)


def test_one_wild_point_does_not_bend_the_rest() -> None:
    grid = decode_grid()
    us = 12 + 0.1 * grid["batch"] + 0.0013 * grid["batch"] * grid["context"]
    us[3] *= 20
    (found,) = fit_max_affine(decode_pieces(grid), us).coefficients
    assert found[2] == pytest.approx(0.0013, rel=0.05)


def test_what_falls_with_load_is_fitted_by_zero_not_below() -> None:
    fit = fit_max_affine([np.stack([np.ones(15), TOKENS], axis=1)], 100 - 0.01 * TOKENS)
    ((_, slope),) = fit.coefficients
    assert slope == 0
    assert fit.standard_errors[0][1] == 0


def test_loads_that_move_together_have_a_large_condition_number() -> None:
    """Nearly: which one of two equal loads gets the cost is up to the rounding of a CPU."""
    batch = np.array([1.0, 2, 4, 8, 16, 32])
    nearly = batch * 1000 + np.array([9.0, -4, 7, -2, 8, -3])
    together = np.stack([np.ones(6), batch, nearly], axis=1)
    apart = np.stack([np.ones(6), batch, np.array([9.0, 1, 7, 2, 8, 3]) * 1000], axis=1)
    assert fit_max_affine([together], 10 + batch + 0.01 * nearly).condition > 1e3
    assert fit_max_affine([apart], 10 + batch + 0.01 * apart[:, 2]).condition < 100


def test_an_offset_is_not_fitted_again() -> None:
    load = np.stack([TOKENS, TOKENS**2], axis=1)
    offset = 50 + TOKENS
    fit = fit_max_affine([load], offset + 0.5 * TOKENS + 1e-3 * TOKENS**2, offset)
    assert fit.coefficients[0] == pytest.approx((0.5, 1e-3), rel=0.01)
    assert fit.predict([load], offset) == pytest.approx(offset + load @ [0.5, 1e-3], rel=0.01)


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="2 points cannot determine 3 coefficients"):
        fit_max_affine([np.ones((2, 3))], np.ones(2))


def test_a_point_does_not_help_to_predict_itself() -> None:
    us = 100 + TOKENS
    us[7] *= 3
    unseen = predict_unseen([[np.stack([np.ones(15), TOKENS], axis=1)]], us)
    assert unseen[7] == pytest.approx(us[7] / 3, rel=0.05)


def test_errors_are_fractions() -> None:
    found = hold_out_of(np.array([1.1, 0.9, 1.0, 1.5]), np.ones(4))
    assert (found.median, found.p90, found.points) == (0.1, 0.38, 4)
