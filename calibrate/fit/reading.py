"""What each coefficient means: a fraction of the card's bandwidth or peak, or plain microseconds.

A fraction near one is a good kernel, above one a warm cache or a wrong model; a person can check a
fit, or write one by hand, from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.sim.hardware import load_hardware

if TYPE_CHECKING:
    from kvsim.calibrate.fit.fit import Calibration
    from kvsim.sim.cost.profile import Profile

_VALUE_BYTES: Final = 2
_TOO_FAST: Final = 1.5


@dataclass(frozen=True, slots=True)
class Reading:
    """One coefficient: value and standard error in ``unit``, and what it says."""

    block: str
    name: str
    value: float
    standard_error: float
    unit: str
    says: str


def readings(calibration: Calibration) -> list[Reading]:
    """Fitted coefficients in order, with their reading."""
    rows = []
    for found in calibration.fits:
        says = _says(found.block, found.values, calibration.profile)
        for names, values, errors in zip(
            found.names, found.fit.coefficients, found.fit.standard_errors, strict=True
        ):
            for name, value, error in zip(names, values, errors, strict=True):
                rows.append(
                    Reading(found.block, name, value, error, _unit(name), says.get(name, ""))
                )
    return rows


def _unit(name: str) -> str:
    if name in ("g1", "g3") or "per_token" in name:
        return "us/token"
    if "per_area" in name:
        return "us/token^2"
    for load in ("request", "expert", "byte", "tile"):
        if f"per_{load}" in name:
            return f"us/{load}"
    return "us"


def _says(block: str, values: dict[str, float], profile: Profile) -> dict[str, str]:
    """Sentence per coefficient of a block, where there is one."""
    card, shape, tp = load_hardware(profile.hardware), profile.model, profile.tp
    bandwidth, peak = card.bandwidth_bytes_per_s / 1e6, card.peak(profile.weight_dtype) / 1e6

    def read(name: str, num_bytes: float) -> dict[str, str]:
        return {name: _share(num_bytes, values[name], bandwidth, "bandwidth")}

    def computed(name: str, flop: float) -> dict[str, str]:
        return {name: _share(flop, values[name], peak, "peak")}

    kv_bytes = 2 * -(-shape.num_kv_heads // tp) * shape.head_dim * _VALUE_BYTES
    says: dict[str, str] = {}
    if block == "layer":
        weights = shape.layer_params / tp
        says = read("g0", weights * _VALUE_BYTES)
        gemm = profile.gemm
        says["g3"] = _share(2 * weights, gemm.arithmetic_us, peak, "peak")
        if gemm.per_tile_us:
            says["g3"] += ", its share of a tile included"
            says["per_tile_us"] = f"a started tile of {gemm.tile_tokens} tokens"
    elif block == "layer_floor":
        says = {"floor_us": "launches and small kernels"} | read("per_byte_us", 1.0)
    elif block == "decode_attention":
        says = {"per_call_us": "floor of a call", "per_request_us": "a sequence"}
        says |= read("per_token_us", kv_bytes)
    elif block == "prefill_attention":
        says = {
            "reach_us": "floor of a call",
            "reach_per_request_us": "a request",
            "reach_per_past_us": "a token of past, on top",
        }
        says |= read("reach_per_token_us", kv_bytes)
        says |= computed("per_area_us", 4 * shape.num_heads * shape.head_dim / tp)
    elif block == "mixed_attention":
        alone = profile.decode_attention.per_token_us
        ratio = values["per_token_us"] / alone if alone else float("inf")
        says = {"per_request_us": "a sequence", "per_token_us": f"{ratio:.1f} x a decode step's"}
    elif block == "head":
        head = shape.vocab_size * shape.hidden_size / tp
        says = read("per_step_us", head * _VALUE_BYTES) | computed("per_request_us", 2 * head)
    elif block == "experts":
        each = shape.expert_params / tp
        says = read("per_expert_us", each * _VALUE_BYTES)
        says |= computed("compute_per_token_us", 2 * shape.experts_per_token * each)
    return says


def _share(work: float, us: float, rate_per_us: float, of: str) -> str:
    """Fraction of a rate; arithmetic that hides behind reading takes less than its own time."""
    share = work / us / rate_per_us if us else float("inf")
    return f"{share:.2f} of {of}" if share < _TOO_FAST else "hidden behind reading"
