"""Furthest next use: evict what is needed last, or never again. Reads future requests.

Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
Journal 5(2), 1966. The rule is optimal there: equal pages, one access after the other, in a given
order. In an engine it is one more policy and not a bound, for three reasons. The order of
admissions depends on what is cached. Requests overlap. The value of a hit depends on what runs at
the same time.
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
    """Evicts the block with the furthest next request *in the order of the trace*.

    The next request is the first one after the block's last user that looks the block up. Of blocks
    that no request needs again, the one unused for longest is evicted first. Resumes are not
    foreseen.
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
