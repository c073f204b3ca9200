"""Columns of requests: what they say by default, and how chunks of them become whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

DEFAULTS: Final[Mapping[str, int | str]] = {
    "max_tokens": -1,
    "ends_by": 0,
    "priority": 0,
    "ids": "",
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
NARROW: Final = frozenset({"row", "number", "prompt_tokens", "output_tokens"})
"""Columns whose chunks take 4 bytes a number until they are joined."""


def narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Return numbers from 0 on in 4 bytes each where that holds them: traces can be long."""
    fits = not len(numbers) or numbers.max() < 2**31
    return numbers.astype(np.int32) if fits else numbers


def joined(chunks: list[dict[str, NDArray[Any]]], *, widen: bool) -> dict[str, NDArray[Any]]:
    """Join the chunks of each column, emptying them; what a chunk lacks says its default."""
    columns = {}
    lengths = [len(chunk["row"]) for chunk in chunks]
    for name in dict.fromkeys(name for chunk in chunks for name in chunk):
        kind = next(chunk[name].dtype for chunk in chunks if name in chunk)
        pieces = [
            chunk.pop(name) if name in chunk else np.full(length, DEFAULTS[name], kind)
            for chunk, length in zip(chunks, lengths, strict=True)
        ]
        wide = np.int64 if widen and name.endswith("_tokens") else None
        columns[name] = np.concatenate(pieces, dtype=wide)
    return columns


def derive_delays(columns: dict[str, NDArray[Any]]) -> None:
    """Where a predecessor's end is recorded, the delay is the time from it to the request.

    Requests that follow one whose end is not known have -1: not said. Those that follow none have
    none.
    """
    after = columns["after_request"]
    if "delay_ns" in columns:
        columns["delay_ns"][(after < 0) & (columns["delay_ns"] < 0)] = 0
    if "end_ns" not in columns or "delay_ns" in columns:
        return
    end_ns = columns["end_ns"]
    ended = np.where(after >= 0, end_ns[after], -1)
    since = np.maximum(columns["arrival_ns"] - ended, 0)
    columns["delay_ns"] = np.where(ended >= 0, since, np.where(after >= 0, -1, 0))
