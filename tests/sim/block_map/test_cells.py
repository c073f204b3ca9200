"""Pieces folded into cells, with answers known by hand."""

from __future__ import annotations

from kvsim.sim.block_map.cells import Grid, folded, never_slots
from kvsim.sim.block_map.pieces import CODE, Empty, Pieces

GRID = Grid(num_slots=20, cell_slots=8)


def test_pieces_are_cut_at_cells() -> None:
    pieces = Pieces()
    pieces.add("token", 3, 10, 7, 1)
    pieces.add("cached", 13, 2)
    pieces.add("padding", 15, 0, 7, 1)
    pieces.add_empty(16, 4, (9, 0), 30)
    cells = folded(pieces, GRID)
    assert cells.slots[CODE["token"]].tolist() == [5, 5, 0]
    assert cells.slots[CODE["cached"]].tolist() == [0, 2, 0]
    assert cells.slots[CODE["future"]].tolist() == [0, 0, 4]
    assert cells.slots.sum() == 16
    assert cells.owner.tolist() == [7, 7, 9]
    assert cells.owners.tolist() == [1, 1, 1]
    assert GRID.sizes().tolist() == [8, 8, 4]


def test_the_owner_of_most_slots_counts_and_the_earlier_of_equals() -> None:
    pieces = Pieces()
    pieces.add("token", 0, 2, 5, 1)
    pieces.add("token", 2, 3, 4, 1)
    pieces.add("token", 5, 2, 5, 3)
    pieces.add("token", 8, 4, 6, 1)
    pieces.add("token", 12, 4, 2, 1)
    cells = folded(pieces, GRID)
    assert cells.owner.tolist() == [5, 2, -1]
    assert cells.owners.tolist() == [3, 1, 0]


def test_nothing_at_all() -> None:
    cells = folded(Pieces(), GRID)
    assert not cells.slots.any()
    assert cells.owner.tolist() == [-1, -1, -1]


def test_slots_beyond_the_last_token_never_fill() -> None:
    empties = [Empty(6, 6, (1, 0), 100), Empty(16, 4, (1, 1), 0), Empty(12, 2, (2, 0), 8)]
    final = {(1, 0): 103, (2, 0): 10}
    assert never_slots(empties, final, GRID).tolist() == [0, 3, 0]
    assert never_slots(empties, {(1, 0): 100, (2, 0): 0}, GRID).tolist() == [2, 6, 0]
    assert never_slots([], {}, GRID).tolist() == [0, 0, 0]
