"""Fit each block of a profile on the points that say something about serving.

Warm L2 is the trap: a benchmark that reads the same KV (or experts) again and again shows more than
memory can deliver, so decode attention is fitted on calls whose KV exceeds the last-level cache,
and experts on points whose weights do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit.block_fit import BlockFit, Form, fit_block
from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.calibrate.fit.loads import (
    batch_pieces,
    decode_pieces,
    expert_pieces,
    mixed_pieces,
    prefill_pieces,
    prefill_pieces_by_request,
    tile_pieces,
    token_pieces,
)
from kvsim.calibrate.fit.max_affine import fit_max_affine
from kvsim.calibrate.sources.cards import L2_BYTES
from kvsim.calibrate.sources.points import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.sim.cost.profile import HoldOut

VALUE_BYTES: Final = 2
MAX_STEP_TOKENS: Final = 8192
MAX_BATCH: Final = 512
MAX_STEP_BATCH: Final = 256
MIN_STEP_CONTEXT: Final = 256
"""A whole decode step is judged up to this batch and from this context on."""
_MAX_PREFILL_TOKENS: Final = 16384
_MAX_PREFILLS: Final = 64
_MIN_CHUNK: Final = 16
_FEW_DECODES: Final = 12
TILES: Final = (64, 128, 256)
"""Rows that a matrix product of these libraries rounds its tokens up to."""
HELD_OUT_EXPERT_TOKENS: Final = (1, 4, 16, 64)


def layer_points(points: Points) -> Points:
    """Steps up to 8,192 tokens."""
    return points.where(points["tokens"] <= MAX_STEP_TOKENS)


def fit_floor(points: Points) -> BlockFit:
    """Layer at one token by the bytes of its weights; what is left at no bytes is the floor."""
    pieces = batch_pieces(points, "weight_bytes")
    return fit_block("layer_floor", [Form((("floor_us", "per_byte_us"),), pieces)], points.us)


def decode_parts(measurements: Measurements) -> tuple[Points, Points]:
    """Calls whose KV exceeds the cache, and those with less than a sixteenth of it.

    With few of the first kind, all clean points are of the first kind.
    """
    group, points = measurements.model.groups[0], measurements.decode_attention
    token_bytes = 2 * group.kv_heads_per_rank(measurements.tp) * group.head_dim * VALUE_BYTES
    l2_bytes = L2_BYTES[measurements.hardware]
    points = points.where(points["batch"] <= MAX_BATCH)
    read = points["batch"] * points["context"] * token_bytes
    above, tiny = read > l2_bytes, read < l2_bytes / 16
    if above.sum() < _FEW_DECODES:
        return points.where(above | tiny), points.where(read < 0)
    return points.where(above), points.where(tiny)


def fit_layer(points: Points) -> BlockFit:
    """Dense products of a layer by tokens, in tiles where these show."""
    return fit_block("layer", layer_forms(points), points.us)


def layer_forms(points: Points) -> list[Form]:
    """Two affine pieces; with tiles of each size in ``TILES``."""
    plain = Form((("g0", "g1"), ("g2", "g3")), token_pieces(points))
    names = (("g0", "g1"), ("g2", "g3", "per_tile_us"))
    return [plain, *(Form(names, tile_pieces(points, tile)) for tile in TILES)]


def tile_of(fit: BlockFit) -> int:
    """Tokens of a tile in a fitted layer; 1: its form has none."""
    return (1, *TILES)[fit.chosen]


def fit_decode(points: Points) -> BlockFit:
    """Decode attention, affine in batch and total context."""
    names = (("per_call_us", "per_request_us", "per_token_us"),)
    return fit_block("decode_attention", [Form(names, decode_pieces(points))], points.us)


def prefill_points(points: Points) -> Points:
    """Chunks of 16 tokens and more, at most 64 of them and 16,384 tokens in a call."""
    tokens = points["requests"] * points["chunk"]
    return points.where(
        (points["chunk"] >= _MIN_CHUNK)
        & (points["requests"] <= _MAX_PREFILLS)
        & (tokens <= _MAX_PREFILL_TOKENS)
    )


def fit_prefill(points: Points) -> BlockFit:
    """Prefill attention of one call, by its requests where these show."""
    return fit_block("prefill_attention", prefill_forms(points), points.us)


def prefill_forms(points: Points) -> list[Form]:
    """Two pieces; with a time for each request in the first."""
    reach, area = ("reach_us", "reach_per_token_us"), ("base_us", "per_token_us", "per_area_us")
    by_request = (*reach, "reach_per_request_us", "reach_per_past_us")
    return [
        Form((reach, area), prefill_pieces(points)),
        Form((by_request, area), prefill_pieces_by_request(points)),
    ]


def mixed_points(points: Points) -> Points:
    """Chunks of 64 tokens and more with up to 128 decodes of 128 to 8,192 tokens."""
    context = points["context"]
    return points.where(
        (points["chunk"] >= 64)
        & (points["num_decodes"] <= 128)
        & (context >= 128)
        & (context <= 8192)
    )


def fit_mixed(points: Points, prefill: BlockFit) -> BlockFit:
    """What decodes add to a call that prefills, over the fitted prefill term."""
    alone = Points({"requests": np.ones(len(points)), **points.loads}, points.us)
    offset = prefill.fit.predict(prefill_forms(alone)[prefill.chosen].pieces)
    form = Form((("per_request_us", "per_token_us"),), mixed_pieces(points))
    return fit_block("mixed_attention", [form], points.us, offset)


def fit_head(points: Points) -> BlockFit:
    """lm_head and sampler by batch."""
    points = points.where(points["batch"] <= MAX_BATCH)
    form = Form((("per_step_us", "per_request_us"),), batch_pieces(points))
    return fit_block("head", [form], points.us)


def fit_experts(points: Points, expert_bytes: float, l2_bytes: int) -> BlockFit:
    """Routed experts; errors at 1, 4, 16 and 64 tokens, from a fit without them."""
    points = points.where(points["activated"] * expert_bytes > l2_bytes)
    names = (
        ("base_us", "per_expert_us", "per_token_us"),
        ("compute_us", "compute_per_token_us"),
    )
    found = fit_block("experts", [Form(names, expert_pieces(points))], points.us)
    held_out = np.isin(points["tokens"], HELD_OUT_EXPERT_TOKENS)
    if not held_out.any() or held_out.all():
        return found
    seen, unseen = points.where(~held_out), points.where(held_out)
    fit = fit_max_affine(expert_pieces(seen), seen.us)
    error = hold_out_of(fit.predict(expert_pieces(unseen)), unseen.us)
    return BlockFit("experts", names, found.fit, error, found.unseen_us)


def decode_step_error(
    layer: Points,
    layer_us: NDArray[np.float64],
    decode: Points,
    decode_us: NDArray[np.float64],
) -> HoldOut | None:
    """Layer plus decode attention at the batches that both blocks measured.

    ``layer_us``, ``decode_us``: predictions for their points from fits without the point. ``None``
    without points.
    """
    batch, context = decode["batch"], decode["context"]
    common = np.isin(batch, layer["tokens"]) & (batch <= MAX_STEP_BATCH)
    common &= context >= MIN_STEP_CONTEXT
    if not common.any():
        return None
    place = np.searchsorted(layer["tokens"], batch[common])
    return hold_out_of(layer_us[place] + decode_us[common], layer.us[place] + decode.us[common])
