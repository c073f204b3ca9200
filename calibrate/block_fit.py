"""One fitted block: its coefficients under their names, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.calibrate.hold_out import hold_out_of, predict_unseen
from kvsim.calibrate.max_affine import Fit, fit_max_affine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvsim.calibrate.loads import Pieces
    from kvsim.sim.profile import HoldOut


@dataclass(frozen=True, slots=True)
class BlockFit:
    """``names``: of the coefficients, piece by piece, as the profile's keys call them."""

    block: str
    names: tuple[tuple[str, ...], ...]
    fit: Fit
    hold_out: HoldOut
    unseen_us: NDArray[np.float64]
    """Each of the fitted points as predicted by a fit without it."""

    @property
    def values(self) -> dict[str, float]:
        """Coefficients by name."""
        return {
            name: value
            for names, row in zip(self.names, self.fit.coefficients, strict=True)
            for name, value in zip(names, row, strict=True)
        }


def fit_block(
    block: str,
    names: tuple[tuple[str, ...], ...],
    pieces: Pieces,
    us: NDArray[np.float64],
    offset: NDArray[np.float64] | None = None,
) -> BlockFit:
    """Fit all points; its errors are those of fits that did not see the point.

    Raises ``ValueError`` naming the block where there are too few points.
    """
    needed = max(matrix.shape[1] for matrix in pieces) + 1
    if len(us) < needed:
        raise ValueError(f"{block}: {len(us)} points, at least {needed} are needed for its terms")
    unseen = predict_unseen(pieces, us, offset)
    fit = fit_max_affine(pieces, us, offset)
    return BlockFit(block, names, fit, hold_out_of(unseen, us), unseen)
