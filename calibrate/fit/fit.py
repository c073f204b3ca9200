"""From measurements to a profile: fit what was measured, take the rest from the datasheet, say so.

The profile names every term that was not measured in ``assumed``; ``hold_out`` has the error of
each block on points its fit did not see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit import blocks, prediction
from kvsim.calibrate.fit.all_reduce_table import all_reduce_table
from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.calibrate.fit.loads import decode_pieces
from kvsim.calibrate.fit.max_affine import fit_max_affine
from kvsim.calibrate.fit.step_fit import fit_steps
from kvsim.calibrate.sources.cards import L2_BYTES
from kvsim.sim.cost.datasheet import datasheet_profile
from kvsim.sim.cost.deployment import model_shape
from kvsim.sim.cost.profile import (
    DecodeAttention,
    ExpertTerm,
    MeasuredRanges,
    MixedAttention,
    PrefillAttention,
    Profile,
    TokenTerm,
)
from kvsim.sim.hardware import load_hardware

if TYPE_CHECKING:
    from kvsim.calibrate.fit.block_fit import BlockFit
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.sim.cost.profile import HoldOut

_FEW_SPLITS: Final = 2
_HOST: Final = (
    "host: 0.3 ms a step, the same for any batch (0.3-0.6 ms fits replays of engines with CUDA"
    " graphs)"
)
_FILLED: Final = {
    "layer": "layer: weights at 0.69 of the datasheet bandwidth, products at 0.5 of peak",
    "decode": "decode attention: KV at 0.84 of the datasheet bandwidth, a floor of 12 us",
    "prefill": "prefill attention: 0.5 of the datasheet peak over the causal area, a floor of"
    " 12 us",
    "experts": "experts: weights at 0.69 of the datasheet bandwidth, products at 0.5 of peak",
    "head": "head: weights at 0.69 of the datasheet bandwidth, products at 0.5 of peak, no sampler",
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """A profile and the fits behind it."""

    profile: Profile
    fits: tuple[BlockFit, ...]


@dataclass(slots=True)
class _Draft:
    """Profile in the making."""

    profile: Profile
    fits: list[BlockFit]
    hold_out: dict[str, HoldOut]
    fitted: list[str]
    assumed: list[str]

    def add(self, word: str, fit: BlockFit) -> dict[str, float]:
        self.fits.append(fit)
        self.fitted.append(word)
        self.hold_out[fit.block] = fit.hold_out
        return fit.values


def fit_profile(measurements: Measurements, name: str) -> Calibration:
    """Profile ``name`` of the measured card and model. Raises ``ValueError``: too few points."""
    card, shape = load_hardware(measurements.hardware), model_shape(measurements.model)
    base = datasheet_profile(card, "bf16", shape, measurements.tp)
    base = replace(base, name=name, source=measurements.source, kernels=dict(measurements.kernels))
    draft = _Draft(base, [], {}, [], list(measurements.notes))
    if len(measurements.step):
        draft.profile, steps = fit_steps(measurements, base)
        for word, fit in steps.items():
            draft.add(word, fit)
        draft.assumed.append(_FILLED["layer"])
    else:
        _fit_layer(draft, measurements)
        _fit_decode(draft, measurements)
        _fit_prefill(draft, measurements)
        _fit_mixed(draft, measurements)
        _fit_head(draft, measurements)
    _fit_all_reduce(draft, measurements)
    words = [*draft.fitted]
    missing = [
        word
        for word in ("layer", "experts", "decode", "prefill", "mixed", "head", "overhead")
        if word not in words and (word != "experts" or shape.num_experts)
    ]
    if len(measurements.step):
        missing = ["split into terms"]
    else:
        draft.assumed.append(_HOST)
    profile = replace(
        draft.profile,
        hold_out=draft.hold_out,
        measured=_ranges(measurements),
        fidelity=f"{', '.join(words)} fitted; {', '.join(missing)} assumed",
        assumed=tuple(draft.assumed),
    )
    return Calibration(profile, tuple(draft.fits))


def _fit_layer(draft: _Draft, measurements: Measurements) -> None:
    points = blocks.layer_points(measurements.layer)
    if len(points):
        fit = blocks.fit_layer(points)
        found = draft.add("layer", fit)
        pieces = (found["g0"], found["g1"]), (found["g2"], found["g3"])
        per_tile_us = found.get("per_tile_us", 0.0)
        term = TokenTerm(pieces, (), blocks.tile_of(fit), per_tile_us)
        draft.profile = replace(draft.profile, gemm=term)
    else:
        draft.assumed.append(_FILLED["layer"])
    if len(measurements.splits) > _FEW_SPLITS:
        floor = blocks.fit_floor(measurements.splits)
        draft.fits.append(floor)
        draft.hold_out[floor.block] = floor.hold_out
        draft.profile = replace(draft.profile, layer_floor_us=floor.values["floor_us"])
    left_out = measurements.shapes
    if len(left_out):
        draft.hold_out["weight_shapes"] = hold_out_of(left_out["estimate"], left_out.us)
    if len(measurements.experts):
        each = draft.profile.model.expert_params * blocks.VALUE_BYTES / measurements.tp
        fit = blocks.fit_experts(measurements.experts, each, L2_BYTES[measurements.hardware])
        draft.profile = replace(draft.profile, experts=ExpertTerm(**draft.add("experts", fit)))
    elif draft.profile.model.num_experts:
        draft.assumed.append(_FILLED["experts"])


def _fit_decode(draft: _Draft, measurements: Measurements) -> None:
    served, tiny = blocks.decode_parts(measurements)
    if not len(served):
        draft.assumed.append(_FILLED["decode"])
        return
    fit = blocks.fit_decode(served)
    draft.profile = replace(
        draft.profile, decode_attention=DecodeAttention(**draft.add("decode", fit))
    )
    layer = blocks.layer_points(measurements.layer)
    for found in draft.fits:
        if found.block == "layer" and not len(measurements.experts):
            both = served.and_then(tiny)
            tiny_us = fit.fit.predict(decode_pieces(tiny))
            error = blocks.decode_step_error(
                layer, found.unseen_us, both, np.concatenate([fit.unseen_us, tiny_us])
            )
            if error is not None:
                draft.hold_out["decode_step"] = error


def _fit_prefill(draft: _Draft, measurements: Measurements) -> None:
    points = blocks.prefill_points(measurements.prefill_attention)
    if not len(points):
        draft.assumed.append(_FILLED["prefill"])
        return
    fit = blocks.fit_prefill(points)
    term = PrefillAttention(**draft.add("prefill", fit))
    if not points["past"].any():
        shortest = fit_max_affine(blocks.prefill_forms(points)[0].pieces, points.us)
        more_us = max(shortest.coefficients[0][1] - term.reach_per_token_us, 0.0)
        term = replace(term, reach_per_past_us=float(f"{more_us:.6g}"))
        draft.assumed.append(
            "chunks over past: the area and reach terms of prompts without past, not measured"
            + ("; a token of past as dear as without a time by request" if fit.chosen else "")
        )
    draft.profile = replace(draft.profile, prefill_attention=term)


def _fit_mixed(draft: _Draft, measurements: Measurements) -> None:
    points = blocks.mixed_points(measurements.mixed_attention)
    prefill = [fit for fit in draft.fits if fit.block == "prefill_attention"]
    if len(points) and prefill:
        found = draft.add("mixed", blocks.fit_mixed(points, prefill[0]))
        draft.profile = replace(draft.profile, mixed_attention=MixedAttention(**found))
        return
    decode = draft.profile.decode_attention
    mixed = MixedAttention(decode.per_request_us, decode.per_token_us)
    draft.profile = replace(draft.profile, mixed_attention=mixed)
    draft.assumed.append(
        "mixed steps: a decode costs in them what it costs in a decode step; were its context term"
        f" twice as large, a step of a 512-token chunk and 64 decodes of 2,048 tokens would last"
        f" {100 * mixed_effect(draft.profile):.1f} % longer"
    )


def mixed_effect(profile: Profile) -> float:
    """Share by which a mixed step grows if the context term of its decodes doubles (m2 = 2*a2).

    The step: a chunk of 512 tokens without past and 64 decodes with 2,048 tokens each.
    """
    chunk, decodes, context = 512, 64, 2048
    doubled_us = profile.decode_attention.per_token_us * decodes * context
    layer_us = prediction.layer_us(profile, chunk + decodes) + doubled_us
    layer_us += prediction.prefill_us(profile, chunk, 0)
    layer_us += profile.mixed_attention.per_request_us * decodes
    step_us = profile.model.num_layers * layer_us + prediction.head_us(profile, decodes + 1)
    return profile.model.num_layers * doubled_us / (step_us + profile.host.per_step_us)


def _fit_head(draft: _Draft, measurements: Measurements) -> None:
    if len(measurements.head):
        found = draft.add("head", blocks.fit_head(measurements.head))
        draft.profile = replace(
            draft.profile, head=TokenTerm(((found["per_step_us"], found["per_request_us"]),))
        )
    else:
        draft.assumed.append(_FILLED["head"])


def _fit_all_reduce(draft: _Draft, measurements: Measurements) -> None:
    tables = {}
    for cards, points in measurements.all_reduce.items():
        tables[str(cards)], error = all_reduce_table(points)
        draft.hold_out[f"all_reduce_{cards}"] = error
    draft.profile = replace(draft.profile, all_reduce=tables)
    if tables:
        draft.fitted.append("all-reduce")


def _ranges(measurements: Measurements) -> MeasuredRanges:
    """Bounds of the fitted points (whole steps: of those steps)."""
    if len(measurements.step):
        step, prompt = measurements.step, measurements.prompt
        tokens = prompt["requests"] * prompt["chunk"]
        return MeasuredRanges(
            batch=step.span(step["batch"]),
            total_context=step.span(step["batch"] * step["context"]),
            step_tokens=(1, int(tokens.max())),
            prefill_tokens=prompt.span(prompt["chunk"]),
            prefill_past=(0, 0),
        )
    layer = blocks.layer_points(measurements.layer)
    served, tiny = blocks.decode_parts(measurements)
    decode = served.and_then(tiny)
    prefill = blocks.prefill_points(measurements.prefill_attention)
    mixed = blocks.mixed_points(measurements.mixed_attention)
    return MeasuredRanges(
        batch=decode.span(decode["batch"]),
        total_context=decode.span(decode["batch"] * decode["context"]),
        step_tokens=layer.span(layer["tokens"]),
        prefill_tokens=prefill.span(prefill["past"] + prefill["chunk"]),
        prefill_past=prefill.span(prefill["past"]),
        mixed_decodes=mixed.span(mixed["num_decodes"]),
    )
