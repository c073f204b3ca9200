"""The 33 points that a measurement takes, and how well fits to only those predict all others.

Many published points make a better fit; this says what a user gets who measures the few. A table
is not a grid of exactly these loads, so the nearest measured point stands in for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit import blocks
from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.calibrate.fit.loads import decode_pieces, mixed_pieces, prefill_pieces, token_pieces
from kvsim.calibrate.fit.max_affine import fit_max_affine
from kvsim.calibrate.sources.points import Points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.calibrate.fit.loads import Pieces
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.sim.cost.profile import HoldOut

    Loads = Sequence[tuple[int, ...]]

LAYER_TOKENS: Final = tuple((n,) for n in (1, 16, 64, 128, 256, 512, 1024, 2048))
DECODE: Final = (
    (1, 256), (64, 256), (256, 256), (1, 32768), (8, 4096), (64, 2048), (8, 16384), (32, 8192),
    (256, 1024),
)  # fmt: skip
"""(batch, context)"""
PREFILL: Final = (
    (16, 0), (16, 4096), (16, 16384), (128, 1024), (512, 0), (512, 4096), (1024, 0), (2048, 0),
    (2048, 8192),
)  # fmt: skip
"""(chunk, past)"""
MIXED: Final = ((512, 0, 8, 256), (512, 0, 8, 2048), (512, 0, 64, 256), (512, 0, 64, 2048))
"""(chunk, past, decodes, context)"""


def nearest(points: Points, names: Sequence[str], loads: Loads) -> list[int]:
    """Index of the point nearest to each of ``loads``, by ratio; each once."""
    columns = np.log(np.stack([points[name] + 1 for name in names], axis=1))
    wanted = np.log(np.array(loads, dtype=np.float64) + 1)
    distance = np.abs(columns[:, None, :] - wanted).sum(axis=2)
    return sorted({int(index) for index in distance.argmin(axis=0)})


def from_design(measurements: Measurements) -> dict[str, HoldOut]:
    """Error by block on all points but those of the design, from fits to only those."""
    layer = blocks.layer_points(measurements.layer)
    prefill = blocks.prefill_points(measurements.prefill_attention)
    mixed = blocks.mixed_points(measurements.mixed_attention)
    errors = {}
    if len(layer):
        chosen = nearest(layer, ("tokens",), LAYER_TOKENS)
        errors["layer"] = _error(token_pieces(layer), layer, chosen)
    if len(measurements.decode_attention):
        errors["decode_attention"] = _decode_error(measurements)
    if not len(prefill):
        return errors
    single = prefill.where(prefill["requests"] == 1)
    chosen = nearest(single, ("chunk", "past"), PREFILL)
    errors["prefill_attention"] = _error(prefill_pieces(single), single, chosen)
    if len(mixed):
        fit = fit_max_affine(
            [matrix[chosen] for matrix in prefill_pieces(single)], single.us[chosen]
        )
        alone = Points({"requests": np.ones(len(mixed)), **mixed.loads}, mixed.us)
        offset = fit.predict(prefill_pieces(alone))
        names = ("chunk", "past", "num_decodes", "context")
        few, pieces = nearest(mixed, names, MIXED), mixed_pieces(mixed)
        mixed_fit = fit_max_affine([m[few] for m in pieces], mixed.us[few], offset[few])
        errors["mixed_attention"] = hold_out_of(
            np.delete(mixed_fit.predict(pieces, offset), few), np.delete(mixed.us, few)
        )
    return errors


def _decode_error(measurements: Measurements) -> HoldOut:
    """Fit to the design (its warm or tiny points included); judged above the cache."""
    points = measurements.decode_attention
    points = points.where(points["batch"] <= blocks.MAX_BATCH)
    chosen = nearest(points, ("batch", "context"), DECODE)
    pieces = decode_pieces(points)
    fit = fit_max_affine([matrix[chosen] for matrix in pieces], points.us[chosen])
    served, _ = blocks.decode_parts(measurements)
    return hold_out_of(fit.predict(decode_pieces(served)), served.us)


def _error(pieces: Pieces, points: Points, chosen: list[int]) -> HoldOut:
    fit = fit_max_affine([matrix[chosen] for matrix in pieces], points.us[chosen])
    return hold_out_of(np.delete(fit.predict(pieces), chosen), np.delete(points.us, chosen))
