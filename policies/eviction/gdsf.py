"""Greedy-Dual-Size-Frequency: evict what costs least to recompute for its size.

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
    """Evicts the entry with the smallest ``H = L + hits * cost / tokens``.

    Of equal entries the one unused for longest is evicted. ``H`` is set at insertion and at each
    access. ``L`` ages the cache: it is the ``H`` of the last victim. ``cost`` is what the loss of
    the entry adds to a prefill that would have hit it, by the run's step cost. It is the time of a
    step that computes the entry and the next token, less the time of a step that computes only that
    token. So base costs do not count. An entry deep in a prompt attends to more tokens and costs
    more. All values are integers, in picoseconds a token.
    """

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(self._worth)
        if context.cost is None:
            raise ValueError("eviction policy 'gdsf' needs prefill costs, and no engine gives any")
        self._cost = context.cost
        self._costs_ps: dict[tuple[int, int], int] = {}
        self._h: dict[E, int] = {}
        self._age = 0

    def inserted(self, entry: E) -> None:
        """Set the value of the entry; O(1)."""
        self._h[entry] = self._age + entry.num_hits * self._recompute_ps(entry) // entry.num_tokens

    referenced = inserted

    def split(self, entry: E, upper: E) -> None:
        """Give both parts their own values from now on."""
        self.inserted(entry)
        self.inserted(upper)

    def evicted(self, entry: E) -> None:
        """Age the cache: entries inserted or hit from now on get a higher value."""
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
