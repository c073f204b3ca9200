"""Contradictions that several formats can hold: totals, ids against lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.reading.batch import Ragged, is_missing
from kvsim.traces.reading.cells import id_lists, whole_numbers

if TYPE_CHECKING:
    from collections import Counter

    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch


def check_total(
    batch: Batch, name: str, first: NDArray[np.int64], second: NDArray[np.int64], what: str
) -> None:
    """Reject rows whose total is not the sum of its parts; a file without the column has none."""
    if name not in batch.columns:
        return
    total = whole_numbers(batch, name, low=0, high=2**32, default=-1)
    good = batch.kept()
    for row in np.flatnonzero(good & (total >= 0) & (total != first + second)).tolist():
        batch.reject(
            row,
            f"{name} contradicts {what}",
            f"{name} is {total[row]}, but {what} are {first[row]} + {second[row]} = "
            f"{first[row] + second[row]}",
        )


def optional_ids(batch: Batch, name: str) -> Ragged:
    """Read lists of ids where a row has them; rows without are anonymous (no ids)."""
    if name not in batch.columns:
        return Ragged(np.zeros(len(batch), np.int64), np.zeros(0, np.int64))
    cells = batch.columns[name]
    batch.columns = {**batch.columns, name: [[] if is_missing(cell) else cell for cell in cells]}
    return Ragged(*id_lists(batch, name))


def check_num_ids(
    batch: Batch,
    names: tuple[str, str],
    ids: Ragged,
    expected: NDArray[np.int64],
    rule: str,
    *,
    optional: bool = False,
) -> None:
    """Reject rows whose number of ids (``names[0]``) contradicts their length (``names[1]``)."""
    wrong = ids.lengths != expected
    if optional:
        wrong &= ids.lengths > 0
    cells = batch.columns[names[1]]
    for row in np.flatnonzero(wrong).tolist():
        batch.reject(
            row,
            f"{names[0]} contradict {names[1]}",
            f"{names[0]} has {ids.lengths[row]} ids for {names[1]} {cells[row]}; allowed are "
            f"exactly {expected[row]} ({rule})",
        )


def count_models(counts: Counter[str], batch: Batch, name: str) -> None:
    """Add up which models the rows of a batch name."""
    if name in batch.columns:
        counts.update(str(cell) for cell in batch.columns[name])
