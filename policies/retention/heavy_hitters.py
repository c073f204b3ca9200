"""The last tokens and the heaviest of the others: H2O (Zhang et al., NeurIPS 2023, algorithm 1).

When its budget is full, each head drops the token of lowest score that is not among the last ones.
If scores do not change, this keeps the heaviest tokens so far:

    kept by a head = the ``recent`` last, and of those before them the ``heavy`` of largest score

Scores come from a file and are the same for every request. Without a file each token's scores are
drawn from hash(seed, request, position). With probability ``agreement`` a head takes the draw that
is common to all heads; otherwise it takes a separate draw. A slot of a block is kept while any head
keeps its token.
"""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvsim.policies.retention.scores import AttentionScores

_DRAWN_AT_ONCE: Final = 256
_NEVER: Final = np.iinfo(np.int64).max


class HeavyHitters:
    """Keeps ``heavy`` + ``recent`` tokens a head; drops nothing before the prompt is whole."""

    window: int | None = None
    waits_for_prompt = True

    def __init__(
        self,
        heavy: int,
        recent: int,
        *,
        num_heads: int = 1,
        agreement: float = 0.0,
        seed: int = 0,
        scores: AttentionScores | None = None,
    ) -> None:
        assert heavy >= 0, "heavy is below 0"
        assert recent >= 1, "the token that is being computed is kept"
        self.heavy = heavy
        self.recent = recent
        self.size: int | None = heavy + recent
        self.num_heads = num_heads if scores is None else scores.num_layers
        self._agreement = agreement
        self._seed = seed
        self._scores = scores
        self._lives: dict[int, _Lives] = {}

    def kept(self, index: int, computed: int) -> tuple[range, ...]:
        """Return ranges of tokens that any head keeps; O(computed), O(heads log heavy) a token."""
        index = index if self._scores is None else -1
        lives = self._lives.get(index)
        if lives is None:
            lives = self._lives[index] = _Lives(self.heavy, self.rows(index))
        num_old = max(0, computed - self.recent + 1)
        alive = np.flatnonzero(lives.until_at(num_old, computed) > num_old)
        if not len(alive):
            return ()
        breaks = np.flatnonzero(np.diff(alive) > 1)
        starts = alive[np.concatenate(([0], breaks + 1))].tolist()
        ends = alive[np.concatenate((breaks, [len(alive) - 1]))].tolist()
        return tuple(range(a, b + 1) for a, b in zip(starts, ends, strict=True))

    def rows(self, index: int) -> Iterator[list[float]]:
        """Return the scores of sequence ``index``: one row for each position, one number a head."""
        if self._scores is not None:
            yield from self._scores.by_layer.T.tolist()
            return
        rng = np.random.default_rng((self._seed, index))
        heads = self.num_heads
        while True:
            drawn = rng.random((_DRAWN_AT_ONCE, 1 + 2 * heads))
            agrees = drawn[:, 1 : 1 + heads] < self._agreement
            yield from np.where(agrees, drawn[:, :1], drawn[:, 1 + heads :]).tolist()

    def most_blocks(self, block_size: int, in_flight: int, max_model_len: int) -> int | None:
        """Return None: a whole prompt is held before anything is dropped."""
        return None

    def forget(self, index: int) -> None:
        """Drop the draws of a sequence, which can be made again; scores of a file stay."""
        if self._scores is None:
            self._lives.pop(index, None)


class _Lives:
    """How long each position is kept.

    A position is *old* when it is not among the last ones. Position ``p`` is dropped as soon as
    ``until[p]`` positions are old; ``_NEVER`` while some head keeps it. Known values never change,
    so any earlier moment can be asked for too.
    """

    def __init__(self, heavy: int, rows: Iterator[list[float]]) -> None:
        self._until: NDArray[np.int64] = np.full(_DRAWN_AT_ONCE, _NEVER)
        self._heavy = heavy
        self._rows = rows
        self._num_old = 0
        self._heads: list[list[tuple[float, int]]] = []
        self._holders: dict[int, int] = {}

    def until_at(self, num_old: int, num_positions: int) -> NDArray[np.int64]:
        """Return ``until`` of the first positions, valid for every moment up to ``num_old``."""
        while len(self._until) < num_positions:
            self._until = np.concatenate((self._until, np.full(len(self._until), _NEVER)))
        for position in range(self._num_old, num_old):
            self._grow_old(position)
        self._num_old = max(self._num_old, num_old)
        return self._until[:num_positions]

    def _grow_old(self, position: int) -> None:
        """Give each head one more old position; a head with too many drops its lightest."""
        scores = next(self._rows)
        self._heads = self._heads or [[] for _ in scores]
        self._holders[position] = len(scores)
        for heap, score in zip(self._heads, scores, strict=True):
            if len(heap) < self._heavy:
                heappush(heap, (score, position))
                continue
            _, lightest = heappushpop(heap, (score, position))
            self._holders[lightest] -= 1
            if not self._holders[lightest]:
                del self._holders[lightest]
                self._until[lightest] = position + 1
