"""Columns of requests: what they say by default, and how they grow by chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading.growing import GrowingColumn
from kvsim.traces.trace.order_statistics import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

DEFAULTS: Final[Mapping[str, int | str]] = {
    "max_tokens": -1,
    "ends_by": 0,
    "priority": 0,
    "ids": "",
    "user": "",
    "session": "",
    "turn": 0,
    "after_request": -1,
    "delay_ns": -1,
    "num_samples": 1,
    "beam_width": 1,
    "has_time": 1,
    "timeout_ns": -1,
    "end_ns": -1,
}
"""Optional columns of a trace, and what a row says that says nothing."""


class Columns:
    """The columns of requests, growing in place; what a chunk lacks says its default."""

    def __init__(self) -> None:
        self._columns: dict[str, GrowingColumn] = {}
        self._length = 0

    def append(self, chunk: Mapping[str, NDArray[Any]], count: int) -> None:
        """Add ``count`` requests."""
        for name, values in chunk.items():
            if name not in self._columns:
                self._columns[name] = GrowingColumn(values.dtype)
                if self._length:
                    self._columns[name].append_same(DEFAULTS[name], self._length)
            self._columns[name].append(values)
        for name in self._columns.keys() - chunk.keys():
            self._columns[name].append_same(DEFAULTS[name], count)
        self._length += count

    def taken(self) -> dict[str, NDArray[Any]]:
        """Give the whole columns away."""
        return {name: column.taken() for name, column in self._columns.items()}


def derive_delays(columns: dict[str, NDArray[Any]]) -> None:
    """Where a predecessor's end is recorded, the delay is the time from it to the request.

    Requests that follow one whose end is not known have -1: not said. Those that follow none have
    none.
    """
    after = columns["after_request"]
    recorded = "delay_ns" in columns
    if not recorded and "end_ns" not in columns:
        return
    delay_ns = columns.setdefault("delay_ns", np.empty(len(after), dtype=np.int64))
    for part in parts(len(after)):
        if recorded:
            delay_ns[part][(after[part] < 0) & (delay_ns[part] < 0)] = 0
        else:
            ended = np.where(after[part] >= 0, columns["end_ns"][after[part]], -1)
            since = np.maximum(columns["arrival_ns"][part] - ended, 0)
            delay_ns[part] = np.where(ended >= 0, since, np.where(after[part] >= 0, -1, 0))


def parts(count: int) -> Iterator[slice]:
    """Cut rows into parts, so that what is made of one is small."""
    for first in range(0, count, BLOCK):
        yield slice(first, min(first + BLOCK, count))
