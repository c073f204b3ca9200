"""A file of attention scores: how much attention a token at each position gets, by layer.

A CSV file with the header ``layer,position,score`` and one line for each layer and position, both
counted from 0, in any order. See docs/retention.md.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER: Final = ["layer", "position", "score"]


@dataclass(frozen=True, slots=True)
class AttentionScores:
    """``by_layer``: shape (layers, positions), all >= 0; only ratios within a layer count."""

    by_layer: NDArray[np.float64]

    @property
    def num_layers(self) -> int:
        """Number of layers in the file; each keeps different tokens."""
        return int(self.by_layer.shape[0])

    @property
    def num_positions(self) -> int:
        """Positions that have a score."""
        return int(self.by_layer.shape[1])


def read_scores(path: Path) -> AttentionScores:
    """Read a file of attention scores; an unchanged file is not read again.

    Raises
    ------
    ValueError
        With file and line, if the file is not as the module docstring says.
    """
    if not path.is_file():
        raise ValueError(f"attention scores {path}: there is no such file")
    file = path.stat()
    return _read(path, file.st_mtime_ns, file.st_size)


@lru_cache(maxsize=1)
def _read(path: Path, _changed_ns: int, _size: int) -> AttentionScores:
    found: dict[tuple[int, int], float] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            if (header := next(lines, [])) != _HEADER:
                raise ValueError(f"{path}: line 1 is {header}; expected layer,position,score")
            for number, cells in enumerate(lines, start=2):
                place, score = _read_line(f"{path}: line {number}", cells)
                if place in found:
                    raise ValueError(
                        f"{path}: line {number} gives layer {place[0]}, position {place[1]} a "
                        "second time"
                    )
                found[place] = score
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV text file ({error})") from None
    return _as_table(path, found)


def _read_line(place: str, cells: list[str]) -> tuple[tuple[int, int], float]:
    try:
        layer, position, score = int(cells[0]), int(cells[1]), float(cells[2])
        if len(cells) != len(_HEADER) or min(layer, position, score) < 0 or math.isinf(score):
            raise ValueError
        if math.isnan(score):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            f"{place} is {','.join(cells)!r}; expected a layer and a position counted from 0, and "
            "a finite score >= 0"
        ) from None
    return (layer, position), score


def _as_table(path: Path, found: Mapping[tuple[int, int], float]) -> AttentionScores:
    if not found:
        raise ValueError(f"{path}: has no scores")
    layers = 1 + max(layer for layer, _ in found)
    positions = 1 + max(position for _, position in found)
    if len(found) != layers * positions:
        missing = next(
            (layer, position)
            for layer in range(layers)
            for position in range(positions)
            if (layer, position) not in found
        )
        raise ValueError(
            f"{path}: layer {missing[0]} has no score for position {missing[1]}; every layer needs "
            "one for every position"
        )
    table = np.zeros((layers, positions))
    for (layer, position), score in found.items():
        table[layer, position] = score
    silent = np.flatnonzero(table[:, 0] <= 0)
    if len(silent):
        raise ValueError(
            f"{path}: layer {silent[0]} scores position 0 with 0; the first token can attend only "
            "to itself, so its score must be above 0"
        )
    return AttentionScores(table)
