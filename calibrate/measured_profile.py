"""From a session's raw points to a profile that holds all there is to know about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.calibrate.fit.measured_terms import fit_terms
from kvsim.calibrate.fit.prediction import BLOCKS, predicted_us
from kvsim.calibrate.measure.points import HOLD_OUT
from kvsim.calibrate.measure.raw_points import point_of
from kvsim.sim.cost import profile as terms
from kvsim.sim.cost.deployment import model_shape
from kvsim.sim.cost.profile import HoldOut, MeasuredRanges, Profile, layout_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvsim.calibrate.fit.max_affine import Fit
    from kvsim.calibrate.fit.measured_terms import Knots, Terms
    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.timing import Timing
    from kvsim.sim.models import ModelSpec

_OF_THE_DECODER = "of kvsim's own decoder"


def measured_profile(
    raw: Mapping[str, Any],
    model: ModelSpec,
    *,
    name: str,
    hardware: str,
    card: dict[str, Any],
    date: str,
) -> tuple[Profile, Terms]:
    """Profile of a whole session, and the fits behind its terms.

    ``raw``: content of the file of raw points; its ``setup`` has the keys ``tp``, ``dtype``,
    ``block_size``, ``device``, ``kernels``. ``card``: row of a card file. ``date``: ISO. Raises
    ``ValueError`` where a block lacks points.
    """
    setup = raw["setup"]
    timings = [point_of(row) for row in raw["points"]]
    fits = fit_terms(timings)
    (decode,), (mixed,), (host,) = (
        fit.coefficients for fit in (fits.decode, fits.mixed, fits.host)
    )
    reach, area = fits.prefill.coefficients
    rank = f", rank of {setup['tp']}" if setup["tp"] > 1 else ""
    profile = Profile(
        name=name,
        source=f"kvsim calibrate {date} on {setup['device']['product']}{rank}",
        hardware=hardware,
        model=model_shape(model),
        weight_dtype=setup["dtype"],
        kv_dtype=setup["dtype"],
        kernels=dict(setup["kernels"]),
        host=terms.HostTerm(*host),
        gemm=_token_term(fits.layer, fits.layer_knots),
        decode_attention=terms.DecodeAttention(*decode),
        prefill_attention=terms.PrefillAttention(*reach, *area),
        mixed_attention=terms.MixedAttention(*mixed),
        head=_token_term(fits.head, fits.head_knots),
        measured=_ranges(timings),
        hold_out={},
        fidelity="measured on this device",
        assumed=_assumed(setup),
        tp=setup["tp"],
        layer_floor_us=_floor_us(fits),
        attention_factor=_attention_factors(timings, setup["block_size"]),
        card=card,
        measurement={
            **raw,
            "date": date,
            "standard_errors": {
                block: fit.standard_errors for block, fit in fits.by_block().items()
            },
            "condition": {block: fit.condition for block, fit in fits.by_block().items()},
        },
    )
    return replace(profile, hold_out=_hold_outs(profile, timings)), fits


def _token_term(fit: Fit, knots: Knots) -> terms.TokenTerm:
    pieces = () if knots else tuple((us, slope_us) for us, slope_us in fit.coefficients)
    return terms.TokenTerm(pieces, knots)


def _floor_us(fits: Terms) -> float:
    """Small kernels of a layer: what narrower weights would leave as it is."""
    least = fits.layer_knots[0][1] if fits.layer_knots else fits.layer.coefficients[0][0]
    return min(fits.small.coefficients[0][0], least)


def _ranges(timings: Sequence[tuple[Point, Timing]]) -> MeasuredRanges:
    def bounds(block: str, *products: tuple[str, ...]) -> tuple[int, int]:
        sums = []
        for point, _ in timings:
            if point.block == block:
                total = 0
                for product in products:
                    factor = 1
                    for load in product:
                        factor *= point.loads[load]
                    total += factor
                sums.append(total)
        return min(sums), max(sums)

    return MeasuredRanges(
        batch=bounds("decode", ("batch",)),
        total_context=bounds("decode", ("batch", "context")),
        step_tokens=bounds("layer", ("tokens",)),
        prefill_tokens=bounds("prefill", ("chunk",), ("past",)),
        prefill_past=bounds("prefill", ("past",)),
        mixed_decodes=bounds("mixed", ("decodes",)),
    )


def _hold_outs(profile: Profile, timings: Sequence[tuple[Point, Timing]]) -> dict[str, HoldOut]:
    found = {}
    for block, name in BLOCKS.items():
        held = [(p, t.median_us) for p, t in timings if p.block == block and p.role == HOLD_OUT]
        predicted = [predicted_us(profile, point) for point, _ in held]
        if held:
            found[name] = hold_out_of(
                np.array(predicted, dtype=np.float64), np.array([us for _, us in held])
            )
    return found


def _attention_factors(
    timings: Sequence[tuple[Point, Timing]], block_size: int
) -> dict[str, float]:
    """Decode attention of each layout against blocks of the size that the terms were measured at.

    Empty where that size is not among those compared.
    """
    times = {
        point.loads["block_size"]: timing.median_us
        for point, timing in timings
        if point.block == "layout"
    }
    if block_size not in times:
        return {}
    return {
        layout_name("paged" if size else "contiguous", size): round(us / times[block_size], 4)
        for size, us in times.items()
    }


def _assumed(setup: Mapping[str, Any]) -> tuple[str, ...]:
    sentences = [
        f"host: putting a step's inputs together, {_OF_THE_DECODER}; an engine's scheduler, "
        "sampler and transport are not in it",
        f"mixed steps: two kernels, {_OF_THE_DECODER} (chunks one by one, then all decodes)",
        "all contexts of a measured batch are equal; block tables are random permutations",
    ]
    if setup["tp"] > 1:
        sentences.append("all-reduces: not measured (one rank), taken from the card's datasheet")
    return tuple(sentences)
