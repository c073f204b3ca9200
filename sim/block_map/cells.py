"""Pieces folded into cells: how many slots of each cell hold what, and whose most of them are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.metrics.shares import PRIMITIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.block_map.pieces import Empty, Pieces

    Ints = NDArray[np.int64]

SLOTS_PER_CELL: Final = 16
"""Of a pool without blocks: as much as a usual block holds."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A pool of ``num_slots`` slots in cells of ``cell_slots``; the last one may be smaller."""

    num_slots: int
    cell_slots: int

    @property
    def num_cells(self) -> int:
        """Cells of the pool."""
        return -(-self.num_slots // self.cell_slots)

    @staticmethod
    def of_pool(config: SchedulerConfig, most_cells: int) -> Grid:
        """Cells of whole blocks, as small as ``most_cells`` allows."""
        unit = config.block_size if config.block_size > 1 else SLOTS_PER_CELL
        num_slots = config.num_gpu_blocks * config.block_size
        return Grid(num_slots, unit * max(-(-num_slots // (unit * most_cells)), 1))

    def sizes(self) -> Ints:
        """Slots of each cell."""
        sizes = np.full(self.num_cells, self.cell_slots, dtype=np.int64)
        if self.num_cells:
            sizes[-1] = self.num_slots - (self.num_cells - 1) * self.cell_slots
        return sizes


@dataclass(slots=True)
class Cells:
    """One instant of a pool.

    ``slots``: (primitives, cells); what no piece covers is not in it. ``owner``: of most slots of
    a cell, -1 where nobody owns any. ``owners``: the most that one slot of it has.
    """

    slots: NDArray[np.int32]
    owner: NDArray[np.int32]
    owners: NDArray[np.int32]


def folded(pieces: Pieces, grid: Grid) -> Cells:
    """Cells of a grid; pieces over several cells are cut; O(pieces log pieces + cells)."""
    rows = np.array(pieces.rows, dtype=np.int64).reshape(-1, 5)
    cell, slots, row = cut(rows[:, 0], rows[:, 1], grid)
    code, owner, owners = rows[row, 2], rows[row, 3], rows[row, 4]
    num_cells = grid.num_cells
    counts = np.zeros((len(PRIMITIVES), num_cells), dtype=np.int32)
    np.add.at(counts, (code, cell), slots.astype(np.int32))
    most = np.zeros(num_cells, dtype=np.int32)
    np.maximum.at(most, cell, owners.astype(np.int32))
    return Cells(counts, _main_owner(cell, slots, owner, num_cells), most)


def cut(place: Ints, num_slots: Ints, grid: Grid) -> tuple[Ints, Ints, Ints]:
    """Cut stretches at the edges of cells: cell and slots of each part, and whose part it is."""
    first, last = place // grid.cell_slots, (place + num_slots - 1) // grid.cell_slots
    counts = last - first + 1
    row = np.repeat(np.arange(len(place)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    cell = first[row] + nth
    low = np.maximum(place[row], cell * grid.cell_slots)
    high = np.minimum((place + num_slots)[row], (cell + 1) * grid.cell_slots)
    return cell, high - low, row


def _main_owner(cell: Ints, slots: Ints, owner: Ints, num_cells: int) -> NDArray[np.int32]:
    """Owner of most slots of each cell, of equals the one that came first; -1: nobody's."""
    found = np.full(num_cells, -1, dtype=np.int32)
    owned = owner >= 0
    if owned.any():
        pairs, which = np.unique(np.stack([cell, owner])[:, owned], axis=1, return_inverse=True)
        sums = np.bincount(which.ravel(), weights=slots[owned])
        order = np.lexsort((-pairs[1], sums, pairs[0]))  # the last of a cell wins
        found[pairs[0][order]] = pairs[1][order]
    return found


def never_slots(empties: Sequence[Empty], final: dict[tuple[int, int], int], grid: Grid) -> Ints:
    """Slots of each cell that were never filled, where residencies ended with ``final`` tokens.

    Who is not in ``final`` owns still: nothing of it is lost yet.
    """
    place, slots = [], []
    for empty in empties:
        tokens = final.get(empty.residency)
        if tokens is not None:
            filled = min(max(tokens - empty.token, 0), empty.num_slots)
            if filled < empty.num_slots:
                place.append(empty.place + filled)
                slots.append(empty.num_slots - filled)
    cell, parts, _ = cut(np.array(place, dtype=np.int64), np.array(slots, dtype=np.int64), grid)
    return np.bincount(cell, weights=parts, minlength=grid.num_cells).astype(np.int64)
