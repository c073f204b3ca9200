"""Terms with their physical reading: a fraction of bandwidth or peak, us a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.calibrate.measure.raw_points import point_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.calibrate.fit.max_affine import Fit
    from kvsim.calibrate.fit.measured_terms import Terms
    from kvsim.kernels.shape import DecoderShape
    from kvsim.sim.cost.profile import Profile, TokenTerm
    from kvsim.sim.hardware import HardwareSpec

    _Reading = Callable[[float], str]

_LETTERS: Final = {"layer": "g", "head": "h"}
_BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}


@dataclass(frozen=True, slots=True)
class TermRow:
    """One coefficient: us (or GB/s), its standard error, and what it means."""

    block: str
    name: str
    value: float
    unit: str
    standard_error: float
    reading: str


@dataclass(frozen=True, slots=True)
class CopyRate:
    """``latency + bytes / rate`` of copying KV blocks through two sizes."""

    name: str
    latency_us: float
    bytes_per_s: float


def term_rows(
    profile: Profile, terms: Terms, hardware: HardwareSpec, shape: DecoderShape
) -> list[TermRow]:
    """All coefficients of a measured profile, against the bandwidth and peak of ``hardware``.

    ``shape``: what was measured, one rank.
    """
    value_bytes = _BYTES[profile.weight_dtype]
    kv_bytes = shape.kv_bytes_per_token(value_bytes)
    pair_flops = 4 * shape.num_heads * shape.head_dim

    def rate(us: float, num_bytes: float) -> str:
        if not us:
            return "-"
        share = num_bytes / us * 1e6 / hardware.bandwidth_bytes_per_s
        return f"{num_bytes / us / 1e3:.1f} GB/s, {share:.2f} of bandwidth"

    def speed(us: float, flops: float) -> str:
        if not us:
            return "-"
        share = flops / us * 1e6 / hardware.peak(profile.weight_dtype)
        return f"{flops / us / 1e6:.2f} TFLOP/s, {share:.2f} of peak"

    def products(params: int) -> tuple[_Reading, _Reading]:
        """Readings of matrix products with so many weights."""
        return (lambda us: rate(us, params * value_bytes)), (lambda us: speed(us, 2 * params))

    decode, prefill = terms.decode, terms.prefill
    layer, head = products(shape.layer_weights), products(shape.vocab_size * shape.hidden_size)
    return [
        *_token_rows("layer", profile.gemm, terms.layer, "us/token", *layer),
        _row("small", terms.small, 0, 0, "s0", "us", "norms, rotary, KV write"),
        _row("small", terms.small, 0, 1, "s1", "us/token", ""),
        _row("decode", decode, 0, 0, "a0", "us", "launch floor"),
        _row("decode", decode, 0, 1, "a1", "us/request", "per sequence"),
        _row(
            "decode", decode, 0, 2, "a2", "us/token",
            rate(decode.coefficients[0][2], kv_bytes),
        ),
        _row("prefill", prefill, 0, 0, "p0", "us", "floor of short chunks"),
        _row(
            "prefill", prefill, 0, 1, "p1", "us/token",
            rate(prefill.coefficients[0][1], kv_bytes),
        ),
        _row("prefill", prefill, 1, 0, "p2", "us", ""),
        _row("prefill", prefill, 1, 1, "p3", "us/token", ""),
        _row(
            "prefill", prefill, 1, 2, "p4", "us/pair",
            speed(prefill.coefficients[1][2], pair_flops),
        ),
        _row("mixed", terms.mixed, 0, 0, "m1", "us/request", "decodes beside a chunk"),
        _row("mixed", terms.mixed, 0, 1, "m2", "us/token", _ratio(terms)),
        *_token_rows("head", profile.head, terms.head, "us/request", *head),
        _row("host", terms.host, 0, 0, "o0", "us", "inputs of a step"),
        _row("host", terms.host, 0, 1, "o1", "us/request", ""),
    ]  # fmt: skip


def _token_rows(
    block: str, term: TokenTerm, fit: Fit, unit: str, read: _Reading, compute: _Reading
) -> list[TermRow]:
    """Layer or head: the two pieces; where a table replaces them, its ends.

    ``read``: reading of us without tokens, ``compute``: of us a token.
    """
    if term.knots:
        (few, few_us), (many, many_us) = term.knots[0], term.knots[-1]
        letter = _LETTERS[block].upper()
        return [
            TermRow(block, f"{letter}({few})", few_us, "us", 0.0, read(few_us)),
            TermRow(block, f"{letter}({many})", many_us, "us", 0.0, compute(many_us / many)),
        ]
    letter = _LETTERS[block]
    (base_us, _), (_, slope_us) = fit.coefficients
    return [
        _row(block, fit, 0, 0, f"{letter}0", "us", read(base_us)),
        _row(block, fit, 0, 1, f"{letter}1", unit, ""),
        _row(block, fit, 1, 0, f"{letter}2", "us", ""),
        _row(block, fit, 1, 1, f"{letter}3", unit, compute(slope_us)),
    ]


def copy_rates(profile: Profile, block_bytes: int) -> list[CopyRate]:
    """Rates of block copies and of the host link, one by one and as one piece.

    A copy on the device reads and writes: both are counted.
    """
    times: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for row in profile.measurement.get("points", []):
        point, timing = point_of(row)
        if "contiguous" in point.loads:
            ways = 2 if point.block == "copy" else 1
            moved = ways * point.loads["blocks"] * block_bytes
            place = point.block, point.loads["contiguous"]
            times.setdefault(place, []).append((moved, timing.median_us))
    rates = []
    for (block, contiguous), pairs in times.items():
        (small, small_us), (large, large_us) = min(pairs), max(pairs)
        per_byte_us = max(large_us - small_us, 0.0) / max(large - small, 1)
        if not per_byte_us:
            per_byte_us = large_us / large
        name = f"{block.replace('_', ' ')}, {'one piece' if contiguous else 'block by block'}"
        latency_us = max(small_us - small * per_byte_us, 0.0)
        rates.append(CopyRate(name, latency_us, 1e6 / per_byte_us))
    return rates


@dataclass(frozen=True, slots=True)
class AttentionRate:
    """Decode attention of one memory layout: its time, and how fast it reads KV."""

    name: str
    us: float
    bytes_per_s: float
    copy_share: float
    """Of the rate at which the device copies one piece, reading and writing counted."""


def attention_rates(profile: Profile, token_bytes: int) -> list[AttentionRate]:
    """One load over blocks of each size and over contiguous KV, by SDPA and FlexAttention."""
    copied = {
        rate.name: rate.bytes_per_s
        for rate in copy_rates(profile, profile.measurement["setup"]["block_size"] * token_bytes)
    }["copy, one piece"]
    rates = []
    for row in profile.measurement["points"]:
        point, timing = point_of(row)
        if point.block in ("layout", "flex"):
            size = point.loads.get("block_size", 0)
            kernel = "FlexAttention" if point.block == "flex" else "SDPA"
            name = f"paged-{size}" if size else f"contiguous, {kernel}"
            read = point.loads["batch"] * point.loads["context"] * token_bytes
            per_s = read / timing.median_us * 1e6
            rates.append(AttentionRate(name, timing.median_us, per_s, per_s / copied))
    return rates


def _ratio(terms: Terms) -> str:
    """How much dearer a token of context is in a mixed step."""
    alone = terms.decode.coefficients[0][2]
    return f"{terms.mixed.coefficients[0][1] / alone:.2f} x a2" if alone else ""


def _row(
    block: str, fit: Fit, piece: int, column: int, name: str, unit: str, reading: str
) -> TermRow:
    value = fit.coefficients[piece][column]
    return TermRow(block, name, value, unit, fit.standard_errors[piece][column], reading)
