"""Prefix ids where a format says only how many leading tokens a turn has in common with the last.

A session's context is a chain of blocks; a turn keeps the leading full blocks that its stated
prefix covers of the turn before it (prompt and answer) and gets new ids for all else:

    turn 0   |-- 0 --|-- 1 --|-- 2 --|          prompt + answer
    turn 1   |-- 0 --|-- 1 --|-- 3 --|-- 4 --|  prefix: 2 blocks and a bit
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch

BLOCK_TOKENS: Final = 16
NOTE: Final = (
    f"ids of {BLOCK_TOKENS} tokens made from the stated prefix lengths: a turn has its leading "
    "prefix in common with the turn before it, and nothing with other sessions"
)


class PrefixChains:
    """Remembers the last chain of every session; O(blocks) a turn."""

    def __init__(self) -> None:
        self._next_id = 0
        self._last: dict[str, tuple[NDArray[np.int64], int]] = {}  # session -> chain, its tokens

    def ids(
        self,
        batch: Batch,
        session: NDArray[np.object_],
        prefix_tokens: NDArray[np.int64],
        total_tokens: NDArray[np.int64],
    ) -> Ragged:
        """Return ids over prompt and answer, full blocks only; rows with faults get none."""
        keep = batch.kept()
        chains: list[NDArray[np.int64]] = []
        rows = zip(session.tolist(), prefix_tokens.tolist(), total_tokens.tolist(), strict=True)
        for row, (name, prefix, total) in enumerate(rows):
            if not keep[row]:
                chains.append(np.zeros(0, dtype=np.int64))
                continue
            before, tokens = self._last.get(name, (np.zeros(0, dtype=np.int64), 0))
            kept = before[: min(prefix, tokens) // BLOCK_TOKENS]
            num_new = total // BLOCK_TOKENS - len(kept)
            new = np.arange(self._next_id, self._next_id + num_new)
            self._next_id += num_new
            chain = np.concatenate([kept, new])
            self._last[name] = (chain, total)
            chains.append(chain)
        lengths = np.fromiter(map(len, chains), np.int64, len(chains))
        return Ragged(lengths, np.concatenate(chains))
