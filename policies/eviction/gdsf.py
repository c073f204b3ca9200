"""Greedy-Dual-Size-Frequency: what is cheap to compute again for its size goes first.

Source: Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
policy", HP Labs HPL-98-69R1 (1998), after Cao and Irani, GreedyDual-Size (USITS 1997).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.eviction.base import E
from kvsim.policies.eviction.keyed import KeyedOrder

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction.base import SortKey


class Gdsf(KeyedOrder[E]):
    """Evicts the entry with the smallest ``H = L + hits * cost / tokens``, of equals the stalest.

    ``H`` is set when an entry comes in and at each access; ``L`` ages the cache: it is the ``H`` of
    the last victim. ``cost`` is what losing the entry adds to a prefill that would have hit it, by
    the run's step cost: the step that computes the entry and the token after it, less the step that
    computes that token alone. So base costs do not count, and an entry deep in a prompt, which
    attends to more, is dearer. Integers: picoseconds a token.
    """

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(self._worth)
        if context.cost is None:
            raise ValueError("eviction policy 'gdsf' weighs costs of prefill: no engine gives any")
        self._cost = context.cost
        self._costs_ps: dict[tuple[int, int], int] = {}
        self._h: dict[E, int] = {}
        self._age = 0

    def inserted(self, entry: E) -> None:
        """Set the entry's worth; O(1)."""
        self._h[entry] = self._age + entry.num_hits * self._recompute_ps(entry) // entry.num_tokens

    referenced = inserted

    def split(self, entry: E, upper: E) -> None:
        """Both parts are entries of their own from now on."""
        self.inserted(entry)
        self.inserted(upper)

    def evicted(self, entry: E) -> None:
        """The cache grows older: what comes in or is hit from now on outlives what is not."""
        self._age = self._h.pop(entry)

    def _worth(self, entry: E) -> SortKey:
        return (self._h[entry], entry.last_access)

    def _recompute_ps(self, entry: E) -> int:
        size = entry.num_tokens, entry.past
        if size not in self._costs_ps:
            tokens, past = size
            whole_ps = self._cost.prefill_ps(tokens + 1, past)
            self._costs_ps[size] = whole_ps - self._cost.prefill_ps(1, past + tokens)
        return self._costs_ps[size]
