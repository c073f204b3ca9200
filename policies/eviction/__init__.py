"""Which unreferenced cached entry is evicted first.

The contract is :mod:`~kvsim.policies.eviction.base`. ``sort_keys`` has the orders that are a sort
key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

from kvsim.policies.context import PolicyContext
from kvsim.policies.eviction.base import (
    E,
    Entry,
    EvictionKey,
    EvictionOrder,
    NamedEntry,
    SortKey,
)
from kvsim.policies.eviction.furthest import FurthestNextUse
from kvsim.policies.eviction.gdsf import Gdsf
from kvsim.policies.eviction.keyed import KeyedOrder
from kvsim.policies.eviction.random_order import RandomOrder
from kvsim.policies.eviction.s3_fifo import S3Fifo
from kvsim.policies.eviction.sieve import Sieve
from kvsim.policies.eviction.sort_keys import (
    fifo,
    filo,
    length_aware,
    lfu,
    lru,
    mru,
    priority,
    slru,
)
from kvsim.policies.guards.eviction import GuardedOrders, guarded_eviction
from kvsim.policies.registry import Registry, build

if TYPE_CHECKING:
    from collections.abc import Callable

    OrderFactory = Callable[[PolicyContext], EvictionOrder[Any]]

EVICTION_KEYS: Final[dict[str, EvictionKey]] = {
    "lru": lru,
    "fifo": fifo,
    "lfu": lfu,
    "slru": slru,
    "length-aware": length_aware,
    "mru": mru,
    "filo": filo,
    "priority": priority,
}
"""Orders that are a pure function of one entry."""

EVICTION: Final[Registry[EvictionKey | OrderFactory]] = Registry(
    "eviction",
    {
        **EVICTION_KEYS,
        "s3-fifo": S3Fifo,
        "sieve": Sieve,
        "gdsf": Gdsf,
        "random": RandomOrder,
        "furthest-next-use": FurthestNextUse,
    },
    guard=guarded_eviction,
)
"""A function is a sort key. A class is built with the run's context and has hooks."""

AT_ADMISSIONS: Final = frozenset({"lru", "lfu", "slru", "length-aware", "furthest-next-use"})
"""Orders that depend on admissions and releases, but not on when a block was inserted.

``mru`` and ``random`` depend on the time at which a second copy of a block is inserted. The first
copy may be evicted from then on: ``mru`` would choose it at once, ``random`` gives it a number.
"""

SEGMENT_SAFE: Final[dict[str, float]] = {
    "lru": math.inf,
    "lfu": math.inf,
    "slru": math.inf,
    "length-aware": 1,
}
"""Orders that evict a run of blocks from its end, also if each block has a second copy.

The blocks of a run are used together and released end first. With these orders a cache may keep
runs instead of blocks. The number is how many blocks of a run are evicted in a row before another
run may be next.
"""


def make_order(name: str, context: PolicyContext | None = None) -> EvictionOrder[E]:
    """Build an empty eviction order by name, for a run with ``context``.

    Raises
    ------
    ValueError
        If the name is unknown, or the order needs more than the context has.
    """
    policy = EVICTION.find(name)
    if not isinstance(policy, type | GuardedOrders):
        return KeyedOrder(cast("EvictionKey", policy))
    if context is None:
        from kvsim.policies.scheduler_config import SchedulerConfig  # noqa: PLC0415 - it names EVICTION

        context = PolicyContext(SchedulerConfig())
    return build(cast("OrderFactory", policy), context)


def uses_oracle(name: str) -> bool:
    """Whether an order reads future requests."""
    return bool(getattr(EVICTION.find(name), "uses_oracle", False))


def needs_names(name: str) -> bool:
    """Whether an order works only on blocks with a key, not on the nodes of a tree."""
    return bool(getattr(EVICTION.find(name), "needs_names", False))


__all__ = [
    "AT_ADMISSIONS",
    "EVICTION",
    "EVICTION_KEYS",
    "SEGMENT_SAFE",
    "Entry",
    "EvictionKey",
    "EvictionOrder",
    "KeyedOrder",
    "NamedEntry",
    "SortKey",
    "make_order",
    "needs_names",
    "uses_oracle",
]
