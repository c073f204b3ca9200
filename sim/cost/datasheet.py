"""A profile for a card without measurements: fractions of its datasheet figures.

The fractions were fitted on three cards and tested on a card that was left out. The median error of
a decode step of an 8B-class model is 10.7 % (A100), 8.4 % (H100) and 5.9 % (L40S). With the
datasheet figures unchanged it is 23-34 %. Everything is assumed; nothing here is a measurement of
the card.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.cost.profile import (
    DecodeAttention,
    ExpertTerm,
    HostTerm,
    MeasuredRanges,
    MixedAttention,
    ModelShape,
    PrefillAttention,
    Profile,
    TokenTerm,
)
from kvsim.sim.models.dtypes import weight_format

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec

WEIGHT_BANDWIDTH_FRACTION = 0.69
KV_BANDWIDTH_FRACTION = 0.84
GEMM_PEAK_FRACTION = 0.5
LAUNCH_US = 12.0
"""Floor of an attention call: between the 10.6 (L40S) and 17.7 us (A100) that were measured."""
HOST_US = 300.0
"""Engine overhead a step; 0.3-0.6 ms fits replays of engines with CUDA graphs."""

LLAMA_8B = ModelShape("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256)
"""The shape that all reference profiles are written for."""

ALL_ASSUMED: Final = "all assumed"
"""Fidelity of a profile without any measurement."""


def is_assumed(source: str) -> bool:
    """Whether a cost source, by its name, has no measurement, and so no measured range."""
    return source.endswith(f"({ALL_ASSUMED})")


def datasheet_profile(
    hardware: HardwareSpec, dtype: str = "bf16", shape: ModelShape = LLAMA_8B, tp: int = 1
) -> Profile:
    """Profile of ``shape`` (default: the 8B reference) on one of ``tp`` cards, all assumed."""
    value_bytes = weight_format(dtype).payload_bits / 8
    weight_us = value_bytes * 1e6 / (WEIGHT_BANDWIDTH_FRACTION * hardware.bandwidth_bytes_per_s)
    flop_us = 1e6 / (GEMM_PEAK_FRACTION * hardware.peak(dtype))
    kv_values = 2 * -(-shape.num_kv_heads // tp) * shape.head_dim
    kv_us = kv_values * value_bytes * 1e6 / (KV_BANDWIDTH_FRACTION * hardware.bandwidth_bytes_per_s)
    layer_params, lm_head = shape.layer_params / tp, shape.vocab_size * shape.hidden_size / tp
    experts = None
    if shape.num_experts:
        each = shape.expert_params / tp
        compute_us = 2 * shape.experts_per_token * each * flop_us
        experts = ExpertTerm(0.0, each * weight_us, 0.0, 0.0, compute_us)
    return Profile(
        name=f"{hardware.name}-datasheet",
        source=hardware.source,
        hardware=hardware.name,
        model=shape,
        weight_dtype=dtype,
        kv_dtype=dtype,
        kernels={},
        host=HostTerm(HOST_US),
        gemm=TokenTerm(((layer_params * weight_us, 0.0), (0.0, 2 * layer_params * flop_us))),
        decode_attention=DecodeAttention(LAUNCH_US, 0.0, kv_us),
        prefill_attention=PrefillAttention(
            LAUNCH_US, kv_us, LAUNCH_US, 0.0, 4 * shape.num_heads * shape.head_dim / tp * flop_us
        ),
        mixed_attention=MixedAttention(0.0, kv_us),
        head=TokenTerm(((lm_head * weight_us, 2 * lm_head * flop_us),)),
        measured=MeasuredRanges(),
        hold_out={},
        fidelity=ALL_ASSUMED,
        assumed=(
            "weights at 0.69 and KV at 0.84 of the datasheet bandwidth, products at 0.5 of peak",
            "a floor of 12 us for an attention call and 0.3 ms a step for the host",
        ),
        tp=tp,
        experts=experts,
    )
