"""A profile from whole steps, where a source did not take them apart (Splitwise).

A decode step is affine in batch and total context, a prefill step the larger of a constant and an
affine function of tokens and area. Weights and the floor of attention are assumed from the
datasheet; what a step takes beyond them is charged to the host, since engine overhead is what it
was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kvsim.calibrate.fit.block_fit import Form, fit_block
from kvsim.calibrate.fit.loads import decode_pieces
from kvsim.sim.cost.profile import (
    DecodeAttention,
    HostTerm,
    MixedAttention,
    PrefillAttention,
    TokenTerm,
)

if TYPE_CHECKING:
    from kvsim.calibrate.fit.block_fit import BlockFit
    from kvsim.calibrate.fit.loads import Pieces
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.calibrate.sources.points import Points
    from kvsim.sim.cost.profile import Profile


def fit_steps(measurements: Measurements, base: Profile) -> tuple[Profile, dict[str, BlockFit]]:
    """``base`` (the datasheet's) with its terms moved to the measured steps, and the two fits.

    Raises ``ValueError`` with too few points, or where steps are faster than the datasheet allows.
    """
    step, prompt = measurements.step, measurements.prompt
    names = (("step_us", "per_request_us", "per_token_us"),)
    decode = fit_block("decode_step", [Form(names, decode_pieces(step))], step.us)
    prompt_names = (("floor_us",), ("base_us", "per_token_us", "per_area_us"))
    prefill = fit_block("prefill_step", [Form(prompt_names, _prompt_pieces(prompt))], prompt.us)
    layers = measurements.model.num_layers
    found, slope = decode.values, prefill.values
    weights_us = base.gemm.pieces[0][0]
    device_us = layers * (weights_us + base.decode_attention.per_call_us) + base.head.pieces[0][0]
    host_us = found["step_us"] - device_us
    if host_us < 0:
        raise ValueError(
            f"decode_step: a step of {found['step_us'] / 1000:.1f} ms without requests is faster"
            f" than the {device_us / 1000:.1f} ms that reading the weights takes by the datasheet;"
            " is --tp right?"
        )
    pieces = ((weights_us, 0.0), (0.0, float(f"{slope['per_token_us'] / layers:.6g}")))
    per_token_us = float(f"{found['per_token_us'] / layers:.6g}")
    per_request_us = float(f"{found['per_request_us'] / layers:.6g}")
    profile = replace(
        base,
        host=HostTerm(float(f"{host_us:.6g}")),
        gemm=TokenTerm(pieces),
        decode_attention=DecodeAttention(
            base.decode_attention.per_call_us, per_request_us, per_token_us
        ),
        mixed_attention=MixedAttention(per_request_us, per_token_us),
        prefill_attention=PrefillAttention(
            base.prefill_attention.reach_us,
            0.0,
            base.prefill_attention.base_us,
            0.0,
            float(f"{slope['per_area_us'] / layers:.6g}"),
        ),
    )
    return profile, {"decode steps": decode, "prefill steps": prefill}


def _prompt_pieces(prompt: Points) -> Pieces:
    one, chunk = np.ones(len(prompt)), prompt["chunk"]
    tokens = prompt["requests"] * chunk
    return [one[:, None], np.stack([one, tokens, tokens * chunk / 2], axis=1)]
