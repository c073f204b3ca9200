"""The shipped profiles are what their tables give, and keep the errors they state."""

import dataclasses
import json
from pathlib import Path

import pytest

from kvsim.calibrate.fit import prediction
from kvsim.calibrate.shipped import RECIPES, Recipe, error_rows, fit_recipe
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import bundled_profiles, load_bundled_profile
from kvsim.sim.cost.sources import build_cost
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model


def test_each_shipped_profile_has_a_recipe() -> None:
    assert {recipe.name for recipe in RECIPES} == set(bundled_profiles())


def test_every_shipped_profile_is_within_its_gates() -> None:
    rows = error_rows([load_bundled_profile(name) for name in bundled_profiles()])
    assert len(rows) == 2 + len(RECIPES)
    assert not any("!" in row for row in rows)


def test_the_table_of_errors_marks_what_missed_its_gate() -> None:
    profile = load_bundled_profile("l40s")
    missed = HoldOut(0.086, 0.301, 67)
    worse = dataclasses.replace(profile, hold_out=profile.hold_out | {"prefill_attention": missed})
    assert "| 8.6/30.1 ! |" in error_rows([worse])[2]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_tables_give_the_shipped_profile(recipe: Recipe, shared: Path) -> None:
    tables = shared / "profiles"
    if not tables.is_dir():
        pytest.skip(f"published tables are not here: {tables} is absent")
    found, committed = fit_recipe(recipe, tables), load_bundled_profile(recipe.name)
    texts = [json.loads(json.dumps(dataclasses.asdict(profile))) for profile in (found, committed)]
    assert_close(*texts)


@pytest.mark.parametrize("name", ["a100-sxm", "rtx-4090"])
def test_the_engine_charges_what_the_profile_says(name: str) -> None:
    profile = load_bundled_profile(name)
    cost = build_cost(name, load_model("llama-3.1-8b"), load_hardware(name))
    for tokens in (1, 64, 65, 128, 129, 256, 257, 5000):
        layers_us = 32 * prediction.layer_us(profile, tokens)
        assert cost.gemm.at(tokens) / 1e6 == pytest.approx(layers_us, rel=1e-6)
        chunk_us = 32 * prediction.prefill_us(profile, tokens, 300)
        assert cost.attention[0].prefill([(tokens, 300)]) / 1e6 == pytest.approx(chunk_us, rel=1e-6)


def assert_close(found: object, committed: object, where: str = "") -> None:
    """Equal but for the last digits, which are the solver's."""
    if isinstance(found, dict):
        assert isinstance(committed, dict)
        assert found.keys() == committed.keys(), where
        for key, value in found.items():
            assert_close(value, committed[key], f"{where}.{key}")
    elif isinstance(found, list):
        assert isinstance(committed, list)
        for index, (left, right) in enumerate(zip(found, committed, strict=True)):
            assert_close(left, right, f"{where}[{index}]")
    elif isinstance(found, float):
        assert found == pytest.approx(committed, rel=0.01, abs=2e-3), where
    else:
        assert found == committed, where
