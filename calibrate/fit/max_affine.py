"""Fit ``offset + max of affine pieces`` to times: non-negative, relative, robust.

Every term of the step cost has this form. The residual is the log of predicted over measured, so a
10 us point weighs as much as a 10 ms one, under a soft-L1 loss (scipy), so that a few odd points do
not bend the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import least_squares, nnls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LOSS_SCALE: Final = 0.1
"""Relative error beyond which a point counts linearly."""
_NEGLIGIBLE: Final = 1e-4
"""Share of the time below which a coefficient is nothing but the bound's shadow."""
_LEAST_US: Final = 1e-12
_SPLITS: Final = (0.2, 0.35, 0.5, 0.65, 0.8)
TOO_CONDITIONED: Final = 1000.0
"""Condition number above which some terms cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients of all pieces in order, and how well the points determine them."""

    coefficients: tuple[tuple[float, ...], ...]
    """Per piece, >= 0, six significant digits."""
    standard_errors: tuple[tuple[float, ...], ...]
    """Same units; 0 for a coefficient that is 0, infinite where no point moves it."""
    condition: float
    """Condition number of the relative sensitivities; see ``TOO_CONDITIONED``."""
    num_points: int

    def predict(
        self, pieces: Sequence[NDArray[np.float64]], offset: NDArray[np.float64] | float = 0.0
    ) -> NDArray[np.float64]:
        """Times in us at the loads of ``pieces`` (one matrix points x coefficients a piece)."""
        return offset + _maximum(pieces, [np.array(row) for row in self.coefficients])


def fit_max_affine(
    pieces: Sequence[NDArray[np.float64]],
    us: NDArray[np.float64],
    offset: NDArray[np.float64] | None = None,
) -> Fit:
    """Fit one or two pieces; the second is the one that holds at high load.

    ``pieces``: a matrix points x coefficients each. ``offset``: known part of the time, us, > 0
    where given. Deterministic: starts are splits of the points by the last load. Raises
    ``ValueError`` with fewer points than a piece has coefficients.
    """
    widths = [matrix.shape[1] for matrix in pieces]
    if len(us) < max(widths):
        raise ValueError(f"{len(us)} points cannot determine {max(widths)} coefficients")
    known = np.zeros(len(us)) if offset is None else offset
    scales = [us.mean() / np.maximum(matrix.mean(axis=0), 1e-300) for matrix in pieces]
    joined = np.concatenate(scales)

    def split(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return np.split(values * joined, np.cumsum(widths)[:-1])

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        predicted = known + _maximum(pieces, split(values))
        return np.log(np.maximum(predicted, _LEAST_US) / us)

    def slopes(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the residuals, exact: each point moves with the coefficients of its largest piece."""
        times = [matrix @ row for matrix, row in zip(pieces, split(values), strict=True)]
        largest = np.argmax(times, axis=0)
        predicted = np.maximum(known + np.max(times, axis=0), _LEAST_US)
        active = [matrix * (largest == index)[:, None] for index, matrix in enumerate(pieces)]
        return np.asarray(np.hstack(active) * joined / predicted[:, None])

    best = None
    for start in _starts(pieces, us - known, us):
        found = least_squares(
            residuals,
            np.maximum(np.concatenate(start) / joined, 1e-6),
            jac=slopes,
            bounds=(0.0, np.inf),
            loss="soft_l1",
            f_scale=_LOSS_SCALE,
            x_scale=1.0,
            max_nfev=400,
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None, "there is always a start"
    return _certified(pieces, split(best.x), known, us)


def _maximum(
    pieces: Sequence[NDArray[np.float64]], rows: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    values = [matrix @ row for matrix, row in zip(pieces, rows, strict=True)]
    return np.asarray(np.max(values, axis=0))


def _starts(
    pieces: Sequence[NDArray[np.float64]], target: NDArray[np.float64], us: NDArray[np.float64]
) -> list[list[NDArray[np.float64]]]:
    """Non-negative linear fits of each piece on its part of the points."""

    def linear(matrix: NDArray[np.float64], part: NDArray[np.intp]) -> NDArray[np.float64]:
        relative = matrix[part] / us[part, None]
        scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
        found: NDArray[np.float64] = nnls(relative / scale, np.maximum(target / us, 0)[part])[0]
        return np.asarray(found / scale)

    order = np.argsort(pieces[-1][:, -1], kind="stable")
    if len(pieces) == 1:
        return [[linear(pieces[0], order)]]
    starts = []
    for share in _SPLITS:
        cut = min(max(int(share * len(us)), 1), len(us) - 1)
        starts.append([linear(pieces[0], order[:cut]), linear(pieces[1], order[cut:])])
    return starts


def _certified(
    pieces: Sequence[NDArray[np.float64]],
    rows: Sequence[NDArray[np.float64]],
    known: NDArray[np.float64],
    us: NDArray[np.float64],
) -> Fit:
    """Round, drop what is negligible, and derive errors from the sensitivities."""
    kept = []
    for matrix, row in zip(pieces, rows, strict=True):
        shares = np.max(matrix * row / us[:, None], axis=0)
        kept.append(
            np.array([float(f"{c:.6g}") if s > _NEGLIGIBLE else 0.0
                      for c, s in zip(row, shares, strict=True)])
        )  # fmt: skip
    values = np.array([matrix @ row for matrix, row in zip(pieces, kept, strict=True)])
    predicted = known + values.max(axis=0)
    active = values.argmax(axis=0)
    columns = [
        np.where(active == index, matrix[:, column] * row[column], 0.0) / predicted
        for index, (matrix, row) in enumerate(zip(pieces, kept, strict=True))
        for column in range(matrix.shape[1])
    ]
    jacobian = np.stack(columns, axis=1)
    moved = np.linalg.norm(jacobian, axis=0) > 0
    free = jacobian[:, moved]
    residual = np.log(predicted / us)
    spread = float(residual @ residual) / max(len(us) - free.shape[1], 1)
    singular = np.linalg.svd(free, compute_uv=False)
    determined = len(singular) > 0 and singular[-1] > 0
    condition = float(singular[0] / singular[-1]) if determined else float("inf")
    relative = np.full(len(moved), np.inf)
    relative[moved] = np.sqrt(spread * np.maximum(np.diag(np.linalg.pinv(free.T @ free)), 0))
    flat = np.concatenate(kept)
    errors = np.where(flat > 0, relative * np.where(flat > 0, flat, 1.0), 0.0)
    cuts = np.cumsum([len(row) for row in kept])[:-1]
    return Fit(
        tuple(tuple(float(c) for c in row) for row in kept),
        tuple(tuple(float(c) for c in row) for row in np.split(errors, cuts)),
        condition,
        len(us),
    )
