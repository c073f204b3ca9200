"""Fits against published tables that they were not made for; docs/validation.md has all numbers."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.calibration import decode_steps, engine_errors, kernel_us
from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.calibrate.sources import read_measurements
from kvsim.calibrate.sources.request import ReadRequest
from kvsim.sim.cost.deployment import Deployment
from kvsim.sim.cost.profile_file import load_bundled_profile
from kvsim.sim.cost.scale import scale_profile
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model


@pytest.fixture
def tables(shared: Path) -> Path:
    folder = shared / "profiles"
    if not folder.is_dir():
        pytest.skip(f"published tables are not here: {folder} is absent")
    return folder


@pytest.mark.parametrize("name", ["llama-3.2-3b", "qwen2.5-14b", "llama-3.1-70b"])
def test_another_model_is_derived_from_the_8b_profile(name: str, tables: Path) -> None:
    model, card = load_model(name), load_hardware("a100-sxm")
    request = ReadRequest((tables / "aiconfigurator/a100_sxm",), model)
    points, us = decode_steps(read_measurements("aiconfigurator", request))
    profile = load_bundled_profile("a100-sxm")
    cost = scale_profile(profile, Deployment(model, card), name="derived", overlap=False)
    error = hold_out_of(kernel_us(cost, points, model.num_layers), us)
    assert error.median < 0.06
    assert error.p90 < 0.15


@pytest.mark.parametrize(("tp", "most"), [(2, 0.06), (4, 0.06), (8, 0.15)])
def test_tpot_of_a_70b_engine_on_several_cards(tp: int, most: float, tables: Path) -> None:
    rows = pd.read_csv(tables / "aiconfigurator/end_to_end/silicon_sample_h100.csv.gz")
    (row,) = rows[
        (rows["model_path"] == "meta-llama/Llama-3.1-70B")
        & (rows["tp_size"] == tp)
        & (rows["batch_size"] == 8)
        & (rows["isl"] == 1024)
        & (rows["osl"] == 1024)
    ].to_dict("records")
    tpot_error, _ = engine_errors(
        tp, 8, 1024, 1024, float(row["silicon_ttft_ms"]), float(row["silicon_tpot_ms"])
    )
    assert abs(tpot_error) < most
