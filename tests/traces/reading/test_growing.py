"""Columns that grow in place, and the places of requests as runs, against plain lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.reading.columns import Columns, GrowingColumn
from kvsim.traces.reading.row_lines import Places

PIECES = st.lists(st.lists(st.integers(-5, 5), max_size=5))


@given(PIECES, st.integers(0, 100_000))
def test_a_growing_column_is_its_pieces_in_order(pieces: list[list[int]], many: int) -> None:
    column = GrowingColumn(np.int64)
    column.append_same(7, many)
    for piece in pieces:
        column.append(np.array(piece, dtype=np.int64))
    wanted = [7] * many + [number for piece in pieces for number in piece]
    assert column.values().tolist() == wanted
    assert column.taken().tolist() == wanted
    assert len(column) == 0


def test_objects_grow_too() -> None:
    column = GrowingColumn(np.object_)
    column.append(np.array(["a"], dtype=np.object_))
    column.append_same("", 70_000)
    column.append(np.array(["b"], dtype=np.object_))
    assert column.taken().tolist() == ["a", *[""] * 70_000, "b"]


def test_what_a_chunk_lacks_says_its_default() -> None:
    columns = Columns()
    columns.append({"prompt_tokens": np.array([1, 2])}, 2)
    columns.append({"prompt_tokens": np.array([3]), "turn": np.array([9])}, 1)
    columns.append({"prompt_tokens": np.array([4])}, 1)
    taken = {name: column.tolist() for name, column in columns.taken().items()}
    assert taken == {"prompt_tokens": [1, 2, 3, 4], "turn": [0, 0, 9, 0]}


STEPS = st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 3]), st.sampled_from([0, 1, 1, 1, 4])))


@given(st.lists(STEPS))
def test_places_are_those_of_a_list(batches: list[list[tuple[int, int]]]) -> None:
    places = Places()
    rows, numbers = [-1], [1]
    for batch in batches:
        first = len(rows)
        for row_step, line_step in batch:
            rows.append(rows[-1] + row_step)
            numbers.append(numbers[-1] + line_step)
        places.append(np.array(rows[first:], np.int64), np.array(numbers[first:], np.int64))
    del rows[0], numbers[0]
    assert len(places) == len(rows)
    assert [places.number(index) for index in range(len(rows))] == numbers
    if rows:
        asked = np.arange(rows[-1] + 3)
        wanted = [rows.index(row) if row in rows else -1 for row in asked.tolist()]
        assert places.index_of(asked).tolist() == wanted
