"""Which points are measured: the grid of each block, and random ones held out of the fit.

======================  ================================  =====================================
block                   loads                             one call of
======================  ================================  =====================================
``layer``               tokens                            all of a layer but attention
``small``               tokens                            its norms, rotary, sums, KV write
``decode``              batch, context                    paged decode attention
``prefill``             chunk, past                       attention of one request's chunk
``mixed``               chunk, past, decodes, context     attention of a chunk beside decodes
``head``                batch                             final norm, lm_head and sampler
``host``                requests, context                 putting one step's inputs together
``layout``              block_size, batch, context        decode attention; 0 = contiguous KV
``flex``                batch, context                    decode attention over contiguous KV by
                                                          FlexAttention (CUDA)
``copy``, ``to_host``,  blocks, contiguous                copying KV blocks, one by one or (1)
``from_host``                                             as one piece
======================  ================================  =====================================

The grid is that of the step-cost model's nine decode, nine prefill, eight layer, four mixed and
three head points, and a few more of small batches and chunks: the corners of what an engine runs,
cut to ``Limits``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIT: Final = "fit"
HOLD_OUT: Final = "hold-out"
_COPIES: Final = ("blocks", "contiguous")
LOADS: Final = {
    "layer": ("tokens",),
    "small": ("tokens",),
    "decode": ("batch", "context"),
    "prefill": ("chunk", "past"),
    "mixed": ("chunk", "past", "decodes", "context"),
    "head": ("batch",),
    "host": ("requests", "context"),
    "layout": ("block_size", "batch", "context"),
    "flex": ("batch", "context"),
    "copy": _COPIES,
    "to_host": _COPIES,
    "from_host": _COPIES,
}
"""Names of the loads by block."""
HOLD_OUTS_PER_BLOCK: Final = 4
LAYOUT_BLOCK_SIZES: Final = (8, 16, 32, 64)
_TOKENS: Final = (1, 2, 4, 8, 16, 64, 128, 256, 512, 1024, 2048)
"""A few rows, too (layer and head): on a CPU a product of two takes twice as long as of one."""
_DECODES: Final = (
    (1, 256),
    (64, 256),
    (256, 256),
    (1, 32768),
    (8, 4096),
    (64, 2048),
    (8, 16384),
    (32, 8192),
    (256, 1024),
)
_PREFILLS: Final = (
    (16, 0),
    (16, 4096),
    (16, 16384),
    (64, 0),
    (64, 512),
    (128, 1024),
    (512, 0),
    (512, 4096),
    (1024, 0),
    (2048, 0),
    (2048, 8192),
)
"""Two small ones more than the model's nine: where limits are low, others of them fall together."""
_MIXED: Final = ((8, 256), (8, 2048), (64, 256), (64, 2048))
_MIXED_CHUNK: Final = 512
_BATCHES: Final = (1, 64, 256)
_HEAD_BATCHES: Final = (1, 2, 4, 8, 16, 64, 256)
_SMALL_TOKENS: Final = (1, 64, 512, 2048)
_COPIED_BLOCKS: Final = (8, 256)
_LEAST: Final = {
    "max_batch": 2,
    "max_context": 512,
    "max_step_tokens": 128,
    "max_total_context": 4096,
}
"""Below these, points fall together until terms cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Point:
    """One load of one block; ``role`` tells whether the fit may see it."""

    block: str
    role: str
    loads: Mapping[str, int]

    @property
    def key(self) -> str:
        """Name that no other point of a calibration has: ``decode fit batch=64 context=256``."""
        loads = " ".join(f"{name}={value}" for name, value in self.loads.items())
        return f"{self.block} {self.role} {loads}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest loads that are measured, so that the engine's own maxima are among the points."""

    max_batch: int = 256
    max_context: int = 32768
    max_step_tokens: int = 2048
    max_total_context: int = 262144
    """Sum of the contexts in a step."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")


def grid(limits: Limits) -> list[Point]:
    """Points that are fitted, without those that ``limits`` made equal."""
    batch, context, tokens = limits.max_batch, limits.max_context, limits.max_step_tokens
    points = [_point("layer", FIT, tokens=min(n, tokens)) for n in (*_TOKENS, tokens)]
    points += [_point("small", FIT, tokens=min(n, tokens)) for n in _SMALL_TOKENS]
    points += [_point("decode", FIT, **_decode(b, c, limits)) for b, c in _DECODES]
    points += [
        _point("prefill", FIT, chunk=min(c, tokens, context), past=_past(p, c, limits))
        for c, p in (*_PREFILLS, (tokens, 0))
    ]
    chunk = min(_MIXED_CHUNK, tokens, context)
    points += [
        _point("mixed", FIT, chunk=chunk, past=0, decodes=load["batch"], context=load["context"])
        for load in (_decode(n, c, limits) for n, c in _MIXED)
    ]
    points += [_point("head", FIT, batch=min(b, batch)) for b in (*_HEAD_BATCHES, batch)]
    points += [
        _point("host", FIT, requests=min(b, batch), context=min(1024, context)) for b in _BATCHES
    ]
    return _distinct(points)


def layouts(limits: Limits) -> list[Point]:
    """Decode attention over blocks of each size, and over contiguous KV (block size 0)."""
    load = _decode(16, 2048, limits)
    return [_point("layout", FIT, block_size=size, **load) for size in (0, *LAYOUT_BLOCK_SIZES)]


def flex(limits: Limits) -> Point:
    """The same attention over contiguous KV, by torch's FlexAttention."""
    return _point("flex", FIT, **_decode(16, 2048, limits))


def copies(*, host_link: bool) -> list[Point]:
    """Copies of blocks on the device and, where it has memory of its own, to the host and back."""
    blocks = ("copy", "to_host", "from_host") if host_link else ("copy",)
    return [
        _point(block, FIT, blocks=count, contiguous=contiguous)
        for block in blocks
        for contiguous in (0, 1)
        for count in _COPIED_BLOCKS
    ]


def hold_outs(limits: Limits, seed: int) -> list[Point]:
    """Random points inside the grid's hull, ``HOLD_OUTS_PER_BLOCK`` a block, even in logs."""
    rng = np.random.default_rng(seed)
    decodes = [_decode(b, c, limits) for b, c in _DECODES]
    total = max(load["batch"] * load["context"] for load in decodes)

    def draw(low: int, high: int) -> int:
        return round(float(np.exp(rng.uniform(np.log(low), np.log(max(high, low))))))

    points = []
    tokens, reach = limits.max_step_tokens, min(limits.max_context, 16384 + 16)
    for _ in range(HOLD_OUTS_PER_BLOCK):
        points.append(_point("layer", HOLD_OUT, tokens=draw(2, tokens)))
        batch = draw(1, limits.max_batch)
        longest = min(limits.max_context, total // batch)
        context = draw(min(256, longest), longest)
        points.append(_point("decode", HOLD_OUT, **_decode(batch, context, limits)))
        chunk = draw(min(16, tokens), min(tokens, reach))
        past = draw(1, max(reach // 2 - chunk, 1)) - 1
        points.append(_point("prefill", HOLD_OUT, chunk=chunk, past=past))
        load = _decode(draw(2, 64), draw(128, 2048), limits)
        chunk = min(_MIXED_CHUNK, tokens, limits.max_context)
        points.append(
            _point(
                "mixed",
                HOLD_OUT,
                chunk=chunk,
                past=0,
                decodes=load["batch"],
                context=load["context"],
            )
        )
        points.append(_point("head", HOLD_OUT, batch=draw(2, limits.max_batch)))
    seen: dict[str, Point] = {}
    for point in points:
        seen.setdefault(point.key, point)
    return sorted(seen.values(), key=lambda point: point.key)


def _decode(batch: int, context: int, limits: Limits) -> dict[str, int]:
    batch = min(batch, limits.max_batch)
    context = min(context, limits.max_context, max(limits.max_total_context // batch, 1))
    return {"batch": batch, "context": context}


def _past(past: int, chunk: int, limits: Limits) -> int:
    chunk = min(chunk, limits.max_step_tokens, limits.max_context)
    return min(past, limits.max_context - chunk)


def _point(block: str, role: str, **loads: int) -> Point:
    return Point(block, role, loads)


def _distinct(points: Iterable[Point]) -> list[Point]:
    return list({point.key: point for point in points}.values())
