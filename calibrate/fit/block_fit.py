"""One fitted block: its coefficients under their names, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvsim.calibrate.fit.hold_out import hold_out_of, predict_unseen
from kvsim.calibrate.fit.shortest_form import fit_shortest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.calibrate.fit.loads import Pieces
    from kvsim.calibrate.fit.max_affine import Fit
    from kvsim.sim.cost.profile import HoldOut


class Form(NamedTuple):
    """One way to write a block: names of its coefficients, and the loads each is a factor of.

    Names are, piece by piece, as the profile's keys call them.
    """

    names: tuple[tuple[str, ...], ...]
    pieces: Pieces


@dataclass(frozen=True, slots=True)
class BlockFit:
    """A block in the form that was chosen: ``chosen`` is its place, 0 the shortest."""

    block: str
    names: tuple[tuple[str, ...], ...]
    fit: Fit
    hold_out: HoldOut
    unseen_us: NDArray[np.float64]
    """Each of the fitted points as predicted by a fit without it."""
    chosen: int = 0

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
    forms: Sequence[Form],
    us: NDArray[np.float64],
    offset: NDArray[np.float64] | None = None,
) -> BlockFit:
    """Fit all points in the shortest form that will do (:func:`fit_shortest`).

    Its errors are those of fits that did not see the point, nor chose their form by it. Raises
    ``ValueError`` naming the block where there are too few points for the first form.
    """
    needed = max(matrix.shape[1] for matrix in forms[0].pieces) + 1
    if len(us) < needed:
        raise ValueError(f"{block}: {len(us)} points, at least {needed} are needed for its terms")
    pieces = [form.pieces for form in forms]
    unseen = predict_unseen(pieces, us, offset)
    chosen, fit = fit_shortest(pieces, us, offset)
    return BlockFit(block, forms[chosen].names, fit, hold_out_of(unseen, us), unseen, chosen)
