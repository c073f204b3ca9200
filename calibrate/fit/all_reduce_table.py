"""All-reduces as a table between message sizes: two algorithms defeat two affine pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.calibrate.fit.hold_out import hold_out_of
from kvsim.sim.cost.profile import TokenTerm

if TYPE_CHECKING:
    from kvsim.calibrate.sources.points import Points
    from kvsim.sim.cost.profile import HoldOut

_MAX_KNOTS = 24


def all_reduce_table(points: Points) -> tuple[TokenTerm, HoldOut]:
    """Knots (bytes, us) that never fall, and the error of each inner one from its neighbours.

    Raises ``ValueError`` with fewer than three sizes.
    """
    sizes, us = points["message_bytes"], points.us
    if len(points) < 3:
        raise ValueError(f"all_reduce: {len(points)} message sizes, at least 3 are needed")
    share = (sizes[1:-1] - sizes[:-2]) / (sizes[2:] - sizes[:-2])
    error = hold_out_of(us[:-2] + (us[2:] - us[:-2]) * share, us[1:-1])
    rising = np.maximum.accumulate(us)
    kept = np.unique(np.linspace(0, len(sizes) - 1, min(len(sizes), _MAX_KNOTS)).round())
    knots = tuple((int(sizes[i]), float(f"{rising[i]:.6g}")) for i in kept.astype(int))
    return TokenTerm((), knots), error
