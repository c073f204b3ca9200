"""The shortest of several forms of a block: a longer one has to pay for its coefficient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.fit.max_affine import fit_max_affine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.calibrate.fit.loads import Pieces
    from kvsim.calibrate.fit.max_affine import Fit

_MOST_LEFT: Final = 0.75
"""Share of the shortest form's mean error above which a longer form is not worth a number more."""


def fit_shortest(
    forms: Sequence[Pieces], us: NDArray[np.float64], offset: NDArray[np.float64] | None = None
) -> tuple[int, Fit]:
    """Index of the form to take, and its fit (:func:`fit_max_affine`, which raises).

    The first form, unless another leaves at most three quarters of its mean absolute log error on
    these points; then the one that leaves least. Forms with more coefficients than points are
    passed over.
    """
    fits = [fit_max_affine(forms[0], us, offset)]
    fits += [
        fit_max_affine(form, us, offset)
        for form in forms[1:]
        if max(matrix.shape[1] for matrix in form) <= len(us)
    ]
    known = 0.0 if offset is None else offset
    errors = [
        float(np.mean(np.abs(np.log(fit.predict(form, known) / us))))
        for form, fit in zip(forms, fits, strict=False)
    ]
    best = int(np.argmin(errors))
    chosen = best if errors[best] <= _MOST_LEFT * errors[0] else 0
    return chosen, fits[chosen]
