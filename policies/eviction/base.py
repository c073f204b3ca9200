"""What a cache entry tells about its use, and what an eviction order has to do.

The index (which tokens are where) and the order (who goes first) are separate objects: an index
enters its unreferenced leaves as candidates and takes the next victim; it never looks at a key, and
an order never looks at tokens. Most orders are a pure function *entry -> sort key*, smallest first
(SGLang 0.5.23, ``mem_cache/evict_policy.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar


class Entry(Protocol):
    """Facts that keys are made of; times are ticks of the index's own clock."""

    created: int
    """When the entry came to be; the upper part of a split one is new."""
    last_access: int
    num_hits: int
    """Insertions that went through or ended at the entry, its own included."""
    priority: int
    """Highest priority of the requests that inserted it; more is kept longer."""


SortKey = tuple[int, ...]
"""Smallest is evicted first."""

EvictionKey = Callable[[Entry], SortKey]

E = TypeVar("E", bound=Entry)


class EvictionOrder(Protocol[E]):
    """Candidates of one index, in the order in which they leave."""

    def put(self, entry: E) -> None:
        """Enter a candidate, or tell that the facts of one have changed."""
        ...

    def discard(self, entry: E) -> None:
        """Take out an entry that is no candidate any longer; no harm if it is none."""
        ...

    def pop(self) -> E | None:
        """Take out the next victim; ``None`` where there is no candidate."""
        ...

    def __contains__(self, entry: E) -> bool: ...

    def __len__(self) -> int: ...

    def check_invariants(self) -> None:
        """Verify the structure against the entries' facts; O(candidates)."""
        ...
