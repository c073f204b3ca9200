"""Eviction orders that are a pure function of one entry.

Source: SGLang 0.5.23, ``mem_cache/evict_policy.py``, except ``length_aware``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvsim.policies.eviction.base import Entry, SortKey


PROTECTED_FROM_HITS: Final = 2
"""``slru``: an entry with at least this many hits is in the protected segment."""


def lru(entry: Entry) -> SortKey:
    """Least recently used first."""
    return (entry.last_access,)


def mru(entry: Entry) -> SortKey:
    """Most recently used first."""
    return (-entry.last_access,)


def fifo(entry: Entry) -> SortKey:
    """Oldest first, however much it is used."""
    return (entry.created,)


def filo(entry: Entry) -> SortKey:
    """Newest first."""
    return (-entry.created,)


def lfu(entry: Entry) -> SortKey:
    """Fewest hits first, then least recently used."""
    return (entry.num_hits, entry.last_access)


def slru(entry: Entry) -> SortKey:
    """Entries on probation before protected ones, each segment least recently used first."""
    return (int(entry.num_hits >= PROTECTED_FROM_HITS), entry.last_access)


def priority(entry: Entry) -> SortKey:
    """Lowest priority first, then least recently used."""
    return (entry.priority, entry.last_access)


def length_aware(entry: Entry) -> SortKey:
    """Fewest hits first; of these the entry furthest back in its prompt.

    Mooncake (arXiv 2407.00079, section 4.1 and Table 1), ``LengthAwareCache``: "similar to LFU but
    prioritises evicting blocks that occur later in requests". Source: the paper; there is no code.
    Entries with few hits are evicted first. Position decides among equal ones, then recency.
    """
    return (entry.num_hits, -entry.past, entry.last_access)
