"""A run of tokens, written as ids that stand for several tokens each.

    ids          [ 7 ][ 9 ][ 4 ]          4 tokens an id
    positions    0    4    8    12
    run               . |-----|           start 6, stop 11

Position ``p`` holds token ``p % id_tokens`` of ``ids[p // id_tokens]``; different ids never give
equal tokens. Runs of different requests are compared at the same position only, so their tokens
agree exactly as far as their ids do, and a comparison costs ids, not tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True, slots=True)
class TokenRun:
    """Tokens ``start`` to ``stop`` (exclusive) of a sequence; ``ids`` are those of all of it."""

    ids: tuple[int, ...]
    id_tokens: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.stop <= len(self.ids) * self.id_tokens, (
            f"tokens {self.start} to {self.stop} of {len(self.ids)} ids x {self.id_tokens}"
        )

    @classmethod
    def of(cls, ids: tuple[int, ...], id_tokens: int = 1) -> TokenRun:
        """All tokens of a sequence."""
        return cls(ids, id_tokens, 0, len(ids) * id_tokens)

    def __len__(self) -> int:
        return self.stop - self.start

    def first(self, num_tokens: int) -> TokenRun:
        """Leading tokens of the run; O(1)."""
        return TokenRun(self.ids, self.id_tokens, self.start, self.start + num_tokens)

    def after(self, num_tokens: int) -> TokenRun:
        """Drop that many leading tokens; O(1)."""
        return TokenRun(self.ids, self.id_tokens, self.start + num_tokens, self.stop)

    def head(self, num_tokens: int) -> Hashable:
        """Key of the first tokens, one or more: equal where they are, for runs with one start."""
        return self._ids(self.start + num_tokens)

    def num_shared(self, other: TokenRun) -> int:
        """Leading tokens that two runs with the same start have in common; O(ids)."""
        assert (self.start, self.id_tokens) == (other.start, other.id_tokens), "unlike runs"
        stop = min(self.stop, other.stop)
        mine, theirs = self._ids(stop), other._ids(stop)
        if mine == theirs:
            return stop - self.start
        same = next(n for n, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
        boundary = (self.start // self.id_tokens + same) * self.id_tokens
        return max(boundary - self.start, 0)

    def _ids(self, stop: int) -> tuple[int, ...]:
        """Ids of the tokens from the start up to ``stop``."""
        return self.ids[self.start // self.id_tokens : -(-stop // self.id_tokens)]
