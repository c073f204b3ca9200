"""Which unreferenced cached entry goes first."""

from kvsim.policies.eviction.base import E, Entry, EvictionKey, EvictionOrder, SortKey
from kvsim.policies.eviction.keyed import KeyedOrder
from kvsim.policies.eviction.keys import fifo, filo, lfu, lru, mru, priority, slru

EVICTION_KEYS: dict[str, EvictionKey] = {
    "fifo": fifo,
    "filo": filo,
    "lfu": lfu,
    "lru": lru,
    "mru": mru,
    "priority": priority,
    "slru": slru,
}


def make_order(name: str) -> KeyedOrder[E]:
    """Build an empty eviction order by name; an unknown name lists the choices."""
    if name not in EVICTION_KEYS:
        choices = ", ".join(sorted(EVICTION_KEYS))
        msg = f"eviction policy {name!r} is unknown; choose one of {choices}"
        raise ValueError(msg)
    return KeyedOrder(EVICTION_KEYS[name])


__all__ = [
    "EVICTION_KEYS",
    "Entry",
    "EvictionKey",
    "EvictionOrder",
    "KeyedOrder",
    "SortKey",
    "make_order",
]
