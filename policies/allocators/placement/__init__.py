"""Where a contiguous run of tokens is placed in the pool.

The contract is :mod:`~kvsim.policies.allocators.placement.base`; each rule has one file.
"""

from __future__ import annotations

from typing import Final

from kvsim.policies.allocators.placement.base import Placement
from kvsim.policies.allocators.placement.best_fit import BestFit
from kvsim.policies.allocators.placement.buddy import Buddy
from kvsim.policies.allocators.placement.first_fit import FirstFit
from kvsim.traces.common.names import unknown

PLACEMENTS: Final[dict[str, type[Placement]]] = {
    Buddy.name: Buddy,
    FirstFit.name: FirstFit,
    BestFit.name: BestFit,
}


def make_placement(name: str, num_tokens: int) -> Placement:
    """Build an empty pool of ``num_tokens``; an unknown name lists the choices."""
    if name not in PLACEMENTS:
        msg = unknown("placement", name, sorted(PLACEMENTS))
        raise ValueError(msg)
    return PLACEMENTS[name](num_tokens)


__all__ = ["PLACEMENTS", "BestFit", "Buddy", "FirstFit", "Placement", "make_placement"]
