"""Errors on points that a fit did not see: each quarter of the points is predicted by the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit.shortest_form import fit_shortest
from kvsim.sim.cost.profile import HoldOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.calibrate.fit.loads import Pieces

_NUM_FOLDS: Final = 4
_FEW_POINTS: Final = 40
_SEED: Final = 1
"""Of the one permutation that deals points to folds; the same points give the same errors."""


def hold_out_of(predicted: NDArray[np.float64], us: NDArray[np.float64]) -> HoldOut:
    """Median and 90th percentile of the absolute relative error, four digits."""
    errors = np.abs(predicted / us - 1)
    return HoldOut(
        round(float(np.median(errors)), 4), round(float(np.quantile(errors, 0.9)), 4), len(us)
    )


def predict_unseen(
    forms: Sequence[Pieces],
    us: NDArray[np.float64],
    offset: NDArray[np.float64] | None = None,
    seed: int = _SEED,
) -> NDArray[np.float64]:
    """Each point as predicted by a fit (:func:`fit_shortest`) to the three other quarters.

    The form is chosen by those three quarters too. With fewer than 40 points, each is left out
    alone.
    """
    count = len(us)
    num_folds = count if count < _FEW_POINTS else _NUM_FOLDS
    fold = np.random.default_rng(seed).permutation(count) % num_folds
    predicted = np.empty(count)
    for number in range(num_folds):
        seen, unseen = fold != number, fold == number
        chosen, fit = fit_shortest(
            [[matrix[seen] for matrix in form] for form in forms],
            us[seen],
            None if offset is None else offset[seen],
        )
        predicted[unseen] = fit.predict(
            [matrix[unseen] for matrix in forms[chosen]], 0.0 if offset is None else offset[unseen]
        )
    return predicted
