"""How long a calibration will take: five short probes, then bytes and operations of each point.

Meant to be right within a factor of two, which is what a reader needs before starting one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.measure.anchor import REFERENCE_S
from kvsim.calibrate.measure.points import FIT, Point
from kvsim.calibrate.measure.timing import TimingRule, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.calibrate.measure.bench import Bench
    from kvsim.calibrate.measure.timing import Timer
    from kvsim.kernels.shape import DecoderShape

_PROBE: Final = TimingRule(repeats=15, budget_s=0.6, min_repeats=3)
_LAYER: Final = Point("layer", FIT, {"tokens": 128})
_PREFILL: Final = Point("prefill", FIT, {"chunk": 256, "past": 0})
_DECODE: Final = Point("decode", FIT, {"batch": 16, "context": 512})
_COPY: Final = Point("copy", FIT, {"blocks": 256, "contiguous": 1})
_SETUP_OVERHEAD_S: Final = 0.03
_TOKENS_A_BLOCK: Final = 16


@dataclass(frozen=True, slots=True)
class Rates:
    """What the probes found; ``*_us`` per multiply-add, query-key pair, request, byte, anchor."""

    gemm_us_per_flop: float
    pair_us: float
    request_us: float
    byte_us: float
    setup_byte_us: float
    anchor_us: float


def probe(bench: Bench, timer: Timer, shape: DecoderShape, element_bytes: int) -> Rates:
    """Measure the rates; some seconds at most."""

    def us(point: Point) -> float:
        return min(measure(bench.workload(point), timer, _PROBE).times_us)

    copied = 2 * 256 * _TOKENS_A_BLOCK * shape.kv_bytes_per_token(element_bytes)
    start_s = timer.now_s()
    workload = bench.workload(_COPY)
    setup_us = (timer.now_s() - start_s) * 1e6
    byte_us = min(measure(workload, timer, _PROBE).times_us) / copied
    kv_us = byte_us * 16 * 512 * shape.kv_bytes_per_token(element_bytes)
    return Rates(
        gemm_us_per_flop=us(_LAYER) / (2 * 128 * shape.layer_weights),
        pair_us=us(_PREFILL) / (256 * 256 / 2 * shape.num_heads),
        request_us=max(us(_DECODE) - kv_us, 0.0) / 16,
        byte_us=byte_us,
        setup_byte_us=setup_us / max(workload.rotated_bytes + copied, 1),
        anchor_us=min(measure(bench.anchor(), timer, _PROBE).times_us),
    )


def seconds_of(
    point: Point,
    rates: Rates,
    rule: TimingRule,
    shape: DecoderShape,
    element_bytes: int,
    rotate_bytes: int,
) -> float:
    """Setting a point up, its warm-up, and its repeats with their anchors, if all of them count."""
    call_bytes, flops, pairs, requests = _work(point, shape, element_bytes)
    call_us = (
        max(flops * rates.gemm_us_per_flop, call_bytes * rates.byte_us)
        + pairs * shape.num_heads * rates.pair_us
        + requests * rates.request_us
    )
    call_s, anchor_s = call_us / 1e6, rates.anchor_us / 1e6
    repeat_s = max(call_s + anchor_s, 1e-9)
    repeats = min(rule.repeats, max(rule.min_repeats, rule.budget_s / repeat_s))
    setup_s = (rotate_bytes + 2 * call_bytes) * rates.setup_byte_us / 1e6 + _SETUP_OVERHEAD_S
    return setup_s + repeat_s * (1 + repeats)


def seconds_in_all(
    points: Sequence[Point],
    rates: Rates,
    rule: TimingRule,
    shape: DecoderShape,
    element_bytes: int,
    rotate_bytes: int,
) -> float:
    """All points, and the anchor's reference."""
    return REFERENCE_S + sum(
        seconds_of(point, rates, rule, shape, element_bytes, rotate_bytes) for point in points
    )


class _Work(NamedTuple):
    """Bytes, GEMM operations, query-key pairs and decoding requests of one call."""

    num_bytes: float = 0
    flops: float = 0
    pairs: float = 0
    requests: int = 0


def _work(point: Point, shape: DecoderShape, element_bytes: int) -> _Work:
    loads = point.loads
    kv_bytes = shape.kv_bytes_per_token(element_bytes)
    head = shape.vocab_size * shape.hidden_size
    small = 20 * (2 * shape.hidden_size + shape.qkv_size) * element_bytes
    chunk, past = loads.get("chunk", 0), loads.get("past", 0)
    requests = loads.get("decodes", loads.get("batch", 0))
    seen = chunk + past + requests * loads.get("context", 0)
    work = {
        "layer": lambda: _product(shape.layer_weights, loads["tokens"], element_bytes),
        "head": lambda: _product(head, loads["batch"], element_bytes),
        "small": lambda: _Work(num_bytes=small * loads["tokens"]),
        "host": lambda: _Work(requests=loads["requests"]),
    }
    if point.block in work:
        return work[point.block]()
    if "blocks" in loads:
        return _Work(num_bytes=2 * loads["blocks"] * _TOKENS_A_BLOCK * kv_bytes)
    return _Work(seen * kv_bytes, 0, chunk * past + chunk * chunk / 2, requests)


def _product(weights: int, tokens: int, element_bytes: int) -> _Work:
    return _Work(weights * element_bytes, 2 * tokens * weights)
