"""How far fitted profiles can be trusted, against tables they were not fitted to.

    python benchmarks/calibration.py TABLES [CHECK ...]

TABLES is the folder that ``python -m kvsim.calibrate.shipped`` takes. Checks: ``fractions``
(datasheet fractions of other cards), ``shapes`` (other models derived from one profile), ``ranks``
(a split derived from one rank), ``prefills`` (several prefills in a call), ``design`` (fits to the
33-point design only), ``forms`` (the shortest form of layer and prefill against the one that was
chosen, on five deals of the points), ``engine`` (whole-engine rows of Llama-3.1-70B on 2-8 H100).
The tables in docs/validation.md are their output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.calibration_design import from_design
from kvsim.calibrate.fit import blocks
from kvsim.calibrate.fit.hold_out import hold_out_of, predict_unseen
from kvsim.calibrate.fit.loads import decode_pieces
from kvsim.calibrate.shipped import RECIPES, measurements_of
from kvsim.calibrate.sources import read_measurements
from kvsim.calibrate.sources.points import Points
from kvsim.calibrate.sources.request import ReadRequest
from kvsim.sim.cost.deployment import Deployment
from kvsim.sim.cost.profile_file import load_bundled_profile
from kvsim.sim.cost.scale import scale_profile
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.loader import load_scenario, replace_values
from kvsim.traces.common.quantities import PS_PER_US
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.calibrate.fit.block_fit import Form
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.sim.cost.profile import HoldOut, Profile
    from kvsim.sim.cost.profile_cost import ProfileCost

DENSE = ("a100-sxm", "h100-sxm", "l40s", "rtx-4090", "rtx-pro-6000")
SHAPES = ("llama-3.2-3b", "qwen2.5-14b", "qwen2.5-32b", "llama-3.1-70b")


def percent(found: HoldOut) -> str:
    return f"{100 * found.median:.1f}/{100 * found.p90:.1f} ({found.points})"


def fractions_of(profile: Profile) -> NDArray[np.float64]:
    """Fractions of bandwidth for weights and for KV, and of peak."""
    card, shape = load_hardware(profile.hardware), profile.model
    rate, peak = card.bandwidth_bytes_per_s / 1e6, card.peak("bf16") / 1e6
    return np.array(
        [
            2 * shape.layer_params / profile.gemm.pieces[0][0] / rate,
            2 * shape.kv_values / profile.decode_attention.per_token_us / rate,
            2 * shape.layer_params / profile.gemm.arithmetic_us / peak,
        ]
    )


def decode_steps(measured: Measurements) -> tuple[Points, NDArray[np.float64]]:
    """Clean decode points with a measured layer, and layer plus attention in us."""
    layer = blocks.layer_points(measured.layer)
    served, tiny = blocks.decode_parts(measured)
    points = served.and_then(tiny)
    points = points.where(
        np.isin(points["batch"], layer["tokens"])
        & (points["batch"] <= blocks.MAX_STEP_BATCH)
        & (points["context"] >= blocks.MIN_STEP_CONTEXT)
    )
    at = np.searchsorted(layer["tokens"], points["batch"])
    return points, layer.us[at] + points.us


def by_fractions(
    profile: Profile, points: Points, fractions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Layer plus attention in us from fractions of the datasheet, 12 us for the call."""
    card, shape = load_hardware(profile.hardware), profile.model
    rate, peak = card.bandwidth_bytes_per_s / 1e6, card.peak("bf16") / 1e6
    weights, kv, arithmetic = fractions
    layer = np.maximum(
        2 * shape.layer_params / weights / rate,
        2 * shape.layer_params * points["batch"] / arithmetic / peak,
    )
    attention = 12 + 2 * shape.kv_values * points["batch"] * points["context"] / kv / rate
    return np.asarray(layer + attention)


def check_fractions(tables: Path) -> None:
    print("| card | weights, KV, peak of its own | others' | 0.69, 0.84, 0.5 | raw |")
    own = {name: fractions_of(load_bundled_profile(name)) for name in DENSE}
    for recipe in RECIPES:
        if recipe.name not in DENSE:
            continue
        points, us = decode_steps(measurements_of(recipe, tables))
        profile = load_bundled_profile(recipe.name)
        others = np.mean([own[name] for name in DENSE if name != recipe.name], axis=0)
        cells = [
            percent(hold_out_of(by_fractions(profile, points, fractions), us))
            for fractions in (others, np.array([0.69, 0.84, 0.5]), np.ones(3))
        ]
        shown = ", ".join(f"{value:.2f}" for value in own[recipe.name])
        print(f"| {recipe.name} | {shown} | " + " | ".join(cells) + " |")


def kernel_us(cost: ProfileCost, points: Points, layers: int) -> NDArray[np.float64]:
    """Layer plus decode attention of one layer, us."""
    group = cost.attention[0]
    ps = [
        cost.gemm.at(int(batch))
        + group.decode_ps
        + group.decode_per_request_ps * batch
        + group.decode_per_context_ps * batch * context
        for batch, context in zip(points["batch"], points["context"], strict=True)
    ]
    return np.array(ps) / PS_PER_US / layers


def check_shapes(tables: Path) -> None:
    print("| model | " + " | ".join(("a100-sxm", "h100-sxm", "l40s")) + " |")
    for name in SHAPES:
        cells = []
        for card in ("a100-sxm", "h100-sxm", "l40s"):
            folder = tables / "aiconfigurator" / card.replace("-", "_")
            model = load_model(name)
            measured = read_measurements("aiconfigurator", ReadRequest((folder,), model))
            points, us = decode_steps(measured)
            deployment = Deployment(model, load_hardware(card))
            cost = scale_profile(load_bundled_profile(card), deployment, name="", overlap=False)
            cells.append(percent(hold_out_of(kernel_us(cost, points, model.num_layers), us)))
        print(f"| {name} | " + " | ".join(cells) + " |")


def check_ranks(tables: Path) -> None:
    print("| layer of | tp 2 | tp 4 | tp 8 |")
    for name, card, file in (
        ("llama-3-70b", "a100-sxm", "compute__a100__meta-llama__Meta-Llama-3-70B__mlp.csv.gz"),
        ("llama-2-70b", "h100-sxm", "compute__h100__meta-llama__Llama-2-70b-hf__mlp.csv.gz"),
    ):
        model, cells = load_model(name), []
        for tp in (2, 4, 8):
            request = ReadRequest((tables / "vidur" / file,), model, tp)
            layer = read_measurements("vidur", request).layer
            cost = scale_profile(
                load_bundled_profile(f"{card}-{name}"),
                Deployment(model, load_hardware(card), tp),
                name="",
                overlap=False,
            )
            ps = np.array([cost.gemm.at(int(tokens)) for tokens in layer["tokens"]])
            cells.append(percent(hold_out_of(ps / PS_PER_US / model.num_layers, layer.us)))
        print(f"| {name} on {card} | " + " | ".join(cells) + " |")


def check_prefills(tables: Path) -> None:
    print("| card | one call | sum of single calls |")
    for recipe in RECIPES:
        if recipe.name not in ("a100-sxm", "h100-sxm", "l40s"):
            continue
        points = blocks.prefill_points(measurements_of(recipe, tables).prefill_attention)
        fit = blocks.fit_prefill(points)
        several = points["requests"] > 1
        together = hold_out_of(fit.unseen_us[several], points.us[several])
        points = points.where(several)
        single = Points({**points.loads, "requests": np.ones(len(points))}, points.us)
        pieces = blocks.prefill_forms(single)[fit.chosen].pieces
        alone = points["requests"] * fit.fit.predict(pieces)
        print(f"| {recipe.name} | {percent(together)} | {percent(hold_out_of(alone, points.us))} |")


def check_design(tables: Path) -> None:
    print("| profile | layer | decode_attention | prefill_attention | mixed_attention |")
    for recipe in RECIPES:
        found = from_design(measurements_of(recipe, tables))
        cells = [
            percent(found[block]) if block in found else "-"
            for block in ("layer", "decode_attention", "prefill_attention", "mixed_attention")
        ]
        print(f"| {recipe.name} | " + " | ".join(cells) + " |")


def check_forms(tables: Path) -> None:
    print("| profile | decode step | layer | prefill attention |")
    for recipe in RECIPES:
        measured = measurements_of(recipe, tables)
        cells = []
        for shortest in (True, False):
            found = [form_errors(measured, seed, shortest=shortest) for seed in range(1, 6)]
            cells.append([spread_of(errors) for errors in zip(*found, strict=True)])
        shown = [f"{before} -> {after}" for before, after in zip(*cells, strict=True)]
        print(f"| {recipe.name} | " + " | ".join(shown) + " |")


def form_errors(measured: Measurements, seed: int, *, shortest: bool) -> list[HoldOut | None]:
    """Errors of decode step, layer and prefill on one deal of the points to four quarters."""

    def unseen(forms: list[Form], us: NDArray[np.float64]) -> NDArray[np.float64]:
        pieces = [form.pieces for form in (forms[:1] if shortest else forms)]
        return predict_unseen(pieces, us, seed=seed)

    layer = blocks.layer_points(measured.layer)
    layer_us = unseen(blocks.layer_forms(layer), layer.us)
    served, tiny = blocks.decode_parts(measured)
    decode = blocks.fit_decode(served)
    decode_us = np.concatenate(
        [
            predict_unseen([decode_pieces(served)], served.us, seed=seed),
            decode.fit.predict(decode_pieces(tiny)),
        ]
    )
    prefill = blocks.prefill_points(measured.prefill_attention)
    prefill_us = unseen(blocks.prefill_forms(prefill), prefill.us)
    step = None
    if not len(measured.experts):
        step = blocks.decode_step_error(layer, layer_us, served.and_then(tiny), decode_us)
    return [step, hold_out_of(layer_us, layer.us), hold_out_of(prefill_us, prefill.us)]


def spread_of(errors: tuple[HoldOut | None, ...]) -> str:
    """Least and largest median/p90 over the deals."""
    known = [error for error in errors if error is not None]
    if not known:
        return "-"
    columns = ([error.median for error in known], [error.p90 for error in known])
    return "/".join(f"{100 * min(column):.1f}-{100 * max(column):.1f}" for column in columns)


def check_engine(tables: Path) -> None:
    """FP8 rows of vLLM, replayed: so many users in a closed loop, eight rounds of requests.

    The rows state mean lengths only; ours are drawn within 10 % of them, so that users do not
    march in step. Prefix caching is off.
    """
    rows = pd.read_csv(tables / "aiconfigurator/end_to_end/silicon_sample_h100.csv.gz")
    rows = rows[(rows["model_path"] == "meta-llama/Llama-3.1-70B") & (rows["mode"] == "agg")]
    columns = ("tp_size", "batch_size", "isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms")
    print("| tp | rows | TPOT signed, absolute, worst | TTFT signed, absolute, worst |")
    for tp, group in rows.groupby("tp_size"):
        errors = [
            engine_errors(*(float(value) for value in row))
            for row in zip(*(group[name] for name in columns), strict=True)
        ]
        cells = []
        for found in np.array(errors).T * 100:
            worst = found[np.argmax(np.abs(found))]
            cells.append(f"{np.median(found):+.1f}, {np.median(np.abs(found)):.1f}, {worst:+.1f} %")
        print(f"| {int(str(tp).split('.')[0])} | {len(group)} | " + " | ".join(cells) + " |")


def engine_errors(
    tp: float, users: float, isl: float, osl: float, ttft_ms: float, tpot_ms: float
) -> tuple[float, float]:
    """Relative errors of our mean TPOT and median TTFT against a measured row."""
    generator, count = np.random.default_rng(1), int(8 * users)

    def lengths(mean: float) -> NDArray[np.int64]:
        return generator.integers(int(0.9 * mean), int(1.1 * mean), count, endpoint=True)

    trace = Trace("engine", np.zeros(count, dtype=np.int64), lengths(isl), lengths(osl))
    scenario = replace_values(
        load_scenario(),
        {
            "model.name": "llama-3.1-70b",
            "model.weight_dtype": "fp8",
            "hardware.name": "h100-sxm",
            "engine.tensor_parallel_size": int(tp),
            "engine.enable_prefix_caching": False,
        },
    )
    latency = simulate(trace, scenario, num_users=int(users)).summary.latency
    tpot_s, ttft_s = latency.tpot_s.mean, latency.ttft_s.p50
    assert tpot_s is not None
    assert ttft_s is not None
    return 1000 * tpot_s / tpot_ms - 1, 1000 * ttft_s / ttft_ms - 1


CHECKS = {
    "fractions": check_fractions,
    "shapes": check_shapes,
    "ranks": check_ranks,
    "prefills": check_prefills,
    "design": check_design,
    "forms": check_forms,
    "engine": check_engine,
}

if __name__ == "__main__":
    for chosen in sys.argv[2:] or list(CHECKS):
        print(f"\n{chosen}")
        CHECKS[chosen](Path(sys.argv[1]))
