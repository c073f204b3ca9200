"""A run of tokens, written as stretches; all tokens of a stretch share one name.

    names        [  7  ][    9    ][ 4 ]
    ends               4         10   13
    run               . |-----|           start 4, stop 8

Assume that two sequences agree on all stretches before a position. Then they hold the same token
there if and only if its stretch has the same name in both. So two runs that start together, after
equal tokens, agree exactly as far as their names agree. The cost of a comparison depends on the
number of stretches, not of tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable


class TokenRun:
    """Tokens ``start`` to ``stop`` (exclusive) of a sequence; immutable.

    ``names`` and ``ends`` describe the sequence from its first token on: stretch ``n`` ends before
    token ``ends[n]``.
    """

    __slots__ = ("ends", "names", "start", "stop")

    def __init__(
        self, names: tuple[int, ...], ends: tuple[int, ...], start: int, stop: int
    ) -> None:
        assert 0 <= start <= stop <= (ends[-1] if ends else 0), (
            f"tokens {start} to {stop} of stretches that end at {ends}"
        )
        self.names: Final = names
        self.ends: Final = ends
        self.start: Final = start
        self.stop: Final = stop

    @classmethod
    def of(cls, ids: tuple[int, ...], id_tokens: int = 1) -> TokenRun:
        """Return all tokens of a sequence of ids; each id stands for ``id_tokens`` tokens."""
        ends = tuple(range(id_tokens, (len(ids) + 1) * id_tokens, id_tokens))
        return cls(ids, ends, 0, len(ids) * id_tokens)

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"<tokens {self.start} to {self.stop}>"

    def first(self, num_tokens: int) -> TokenRun:
        """Return the leading ``num_tokens`` tokens of the run; O(1)."""
        return TokenRun(self.names, self.ends, self.start, self.start + num_tokens)

    def after(self, num_tokens: int) -> TokenRun:
        """Return the run without its leading ``num_tokens`` tokens; O(1)."""
        return TokenRun(self.names, self.ends, self.start + num_tokens, self.stop)

    def head(self, num_tokens: int) -> Hashable:
        """Return the key of the first tokens; of runs with one start, equal tokens have equal keys.

        ``num_tokens`` is at least 1. The key is valid only if all compared sequences have stretches
        of one length, or stretches that end with these tokens or before them.
        """
        first = bisect_right(self.ends, self.start)
        last = bisect_right(self.ends, self.start + num_tokens - 1, first)
        return self.names[first] if first == last else self.names[first : last + 1]

    def num_shared(self, other: TokenRun) -> int:
        """Return how many leading tokens two runs with the same start share; O(stretches)."""
        assert self.start == other.start, f"{self} and {other} start apart"
        stop, place = min(self.stop, other.stop), self.start
        names, ends, their_names, their_ends = self.names, self.ends, other.names, other.ends
        mine, theirs = bisect_right(ends, place), bisect_right(their_ends, place)
        while place < stop and names[mine] == their_names[theirs]:
            end, their_end = ends[mine], their_ends[theirs]
            place = min(end, their_end)
            mine += end == place
            theirs += their_end == place
        return min(place, stop) - self.start
