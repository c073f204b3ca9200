"""A linear form fitted to times: coefficients >= 0, relative error, robust against odd rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import least_squares, nnls

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOSS_SCALE: Final = 0.1
"""Relative error beyond which a row counts linearly."""
_NEGLIGIBLE: Final = 1e-5
"""Share of the largest term below which a coefficient is the bound's shadow."""


@dataclass(frozen=True, slots=True)
class RelativeFit:
    """Coefficients, their standard errors (0 where a coefficient is 0) and how apart they are.

    ``condition``: condition number of the rows' relative sensitivities to the coefficients used.
    """

    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...]
    condition: float
    median_error: float
    """Of the fitted rows themselves, as a fraction."""


def relative_fit(matrix: NDArray[np.float64], times: NDArray[np.float64]) -> RelativeFit:
    """Fit ``times ~ matrix @ coefficients``: log residuals under a soft-L1 loss.

    ``matrix``: rows x terms, >= 0; ``times`` > 0. Deterministic: starts at the non-negative least
    squares of the relative errors.
    """
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    scaled = matrix / scale
    start, _ = nnls(scaled / times[:, None], np.ones(len(times)))
    largest = max(float(start.max()), 1e-12)

    def residual(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.log(np.maximum(scaled @ values, 1e-15) / times))

    found = least_squares(
        residual,
        np.maximum(start, 1e-6 * largest),
        bounds=(0, np.inf),
        loss="soft_l1",
        f_scale=_LOSS_SCALE,
        x_scale=largest,
        xtol=1e-12,
        ftol=1e-12,
    )
    values = np.where(found.x < _NEGLIGIBLE * largest, 0.0, found.x)
    used = values > 0
    sensitivity = scaled[:, used] / np.maximum(scaled @ values, 1e-15)[:, None]
    condition = float(np.linalg.cond(sensitivity / np.linalg.norm(sensitivity, axis=0)))
    freedom = max(len(times) - int(used.sum()), 1)
    variance = float(np.sum(residual(values) ** 2)) / freedom
    errors = np.zeros(len(values))
    errors[used] = np.sqrt(np.diag(np.linalg.pinv(sensitivity.T @ sensitivity)) * variance)
    return RelativeFit(
        tuple((values / scale).tolist()),
        tuple((errors / scale).tolist()),
        condition,
        float(np.median(np.abs(np.expm1(residual(values))))),
    )
