"""Fit the terms of the step cost to a session's points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit.max_affine import Fit, fit_max_affine
from kvsim.calibrate.measure.points import FIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.timing import Timing

Knots = tuple[tuple[int, float], ...]
"""Measured table: loads and us."""
TABLE_BEYOND: Final = 0.05
"""Median error of the two-piece form on its own points beyond which a table replaces it."""
TABLE_BEYOND_LARGEST: Final = 0.2
"""The same for the largest error: a step of one request must not be charged as one of four."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Fits by block, and the tables of layer and head: empty where their two pieces hold."""

    layer: Fit
    layer_knots: Knots
    decode: Fit
    prefill: Fit
    mixed: Fit
    head: Fit
    head_knots: Knots
    host: Fit
    small: Fit

    def by_block(self) -> dict[str, Fit]:
        """Fits by the names of the measured blocks."""
        return {
            "layer": self.layer,
            "small": self.small,
            "decode": self.decode,
            "prefill": self.prefill,
            "mixed": self.mixed,
            "head": self.head,
            "host": self.host,
        }


class _Block:
    """Fitted points of one block as columns."""

    def __init__(self, timings: Iterable[tuple[Point, Timing]], block: str) -> None:
        rows = [(p.loads, t.median_us) for p, t in timings if p.block == block and p.role == FIT]
        if not rows:
            raise ValueError(f"no point of {block!r} was measured, so its term cannot be fitted")
        self._loads = [loads for loads, _ in rows]
        self.us = np.array([median_us for _, median_us in rows])

    def __getitem__(self, load: str) -> NDArray[np.float64]:
        return np.array([float(loads[load]) for loads in self._loads])


def fit_terms(timings: Iterable[tuple[Point, Timing]]) -> Terms:
    """Terms of a whole session. Raises ``ValueError`` where a block lacks points."""
    timings = list(timings)
    layer, layer_knots = _two_pieces(timings, "layer", "tokens")
    head, head_knots = _two_pieces(timings, "head", "batch")
    decode = _Block(timings, "decode")
    prefill = _Block(timings, "prefill")
    prefill_fit = fit_max_affine(_prefill_pieces(prefill), prefill.us)
    mixed = _Block(timings, "mixed")
    decodes = mixed["decodes"]
    return Terms(
        layer=layer,
        layer_knots=layer_knots,
        decode=fit_max_affine(
            [
                _matrix(
                    np.ones_like(decode.us), decode["batch"], decode["batch"] * decode["context"]
                )
            ],
            decode.us,
        ),
        prefill=prefill_fit,
        mixed=fit_max_affine(
            [_matrix(decodes, decodes * mixed["context"])],
            mixed.us,
            offset=prefill_fit.predict(_prefill_pieces(mixed)),
        ),
        head=head,
        head_knots=head_knots,
        host=_affine(timings, "host", "requests"),
        small=_affine(timings, "small", "tokens"),
    )


def _two_pieces(
    timings: Iterable[tuple[Point, Timing]], block: str, load: str
) -> tuple[Fit, Knots]:
    """Two pieces, each affine in one load, and the table that replaces them where they miss."""
    points = _Block(timings, block)
    affine = _matrix(np.ones_like(points.us), points[load])
    fit = fit_max_affine([affine, affine], points.us)
    errors = np.abs(fit.predict([affine, affine]) / points.us - 1)
    misses = np.median(errors) > TABLE_BEYOND or errors.max() > TABLE_BEYOND_LARGEST
    return fit, _knots(points[load], points.us) if misses else ()


def _affine(timings: Iterable[tuple[Point, Timing]], block: str, load: str) -> Fit:
    points = _Block(timings, block)
    return fit_max_affine([_matrix(np.ones_like(points.us), points[load])], points.us)


def _prefill_pieces(points: _Block) -> list[NDArray[np.float64]]:
    chunk, past = points["chunk"], points["past"]
    ones = np.ones_like(chunk)
    return [
        _matrix(ones, past + chunk),
        _matrix(ones, chunk, chunk * past + chunk * chunk / 2),
    ]


def _knots(loads: NDArray[np.float64], us: NDArray[np.float64]) -> Knots:
    """Measured table, made non-decreasing (least squares), as a step cost must be."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(loads)
    risen = isotonic_regression(us[order], weights=1 / us[order] ** 2).x
    return tuple(
        (int(n), float(f"{value:.6g}")) for n, value in zip(loads[order], risen, strict=True)
    )


def _matrix(*columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(columns, axis=1)
