"""The pool at one instant, as it is kept until the run has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvsim.sim.block_map.cells import Cells
    from kvsim.sim.block_map.pieces import Empty


@dataclass(slots=True)
class Snapshot:
    """The pool from ``time_ps`` to the next boundary; ``evicted`` since the snapshot before."""

    time_ps: int
    num_running: int
    num_waiting: int
    blank: str
    cells: Cells
    empties: list[Empty]
    evicted: NDArray[np.int32]
