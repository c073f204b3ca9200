"""Furthest next use: what is needed last, or never again, goes first. Reads the future.

Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
Journal 5(2), 1966. Optimal there: equal pages, one access after the other, in a given order. In an
engine it is one more policy and no bound: the order of admissions follows what is cached, requests
overlap, and what a hit saves depends on what runs beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.eviction.base import NamedEntry
from kvsim.policies.eviction.keyed import KeyedOrder

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction.base import SortKey

_NEVER: Final = 1 << 62


class FurthestNextUse(KeyedOrder[NamedEntry]):
    """Evicts the block whose next request *in the order of the trace* is furthest away.

    The next request is the first one behind the block's last user whose look-up reaches it; of
    blocks that nobody needs again the stalest goes first. Resumes are not foreseen.
    """

    needs_names = True
    uses_oracle = True

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(self._distance)
        assert context.future is not None, "an oracle needs the future"
        self._future = context.future

    def _distance(self, entry: NamedEntry) -> SortKey:
        assert entry.key is not None, "a cached block has a key"
        following = self._future.next_use(entry.key, entry.last_user)
        return (-_NEVER if following is None else -following, entry.last_access)
