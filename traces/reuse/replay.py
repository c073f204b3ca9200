"""Policies that no single pass covers, replayed at one capacity.

===========  ======================================  =========================================
policy       ``plain``                               ``tree``
===========  ======================================  =========================================
lru          least recently touched                  leaves only
lfu          fewest touches, ties: stalest           leaves only, touches = requests
fifo         inserted first                          the same, interior blocks too
sieve,       as published                            the same, interior blocks too
s3-fifo
optimal      furthest next touch                     leaves only, furthest next request; may
                                                     decline to insert
===========  ======================================  =========================================

``plain`` touches a request's blocks first to last; each touch of a resident block is a hit.
``tree`` looks a request up first, and only the leading run of cached blocks hits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.names import unknown
from kvsim.traces.reuse.marking_stores import S3Fifo, Sieve
from kvsim.traces.reuse.stores import NO_MORE, Fifo, Furthest, Lfu, Lru
from kvsim.traces.reuse.tree_replay import LeafFurthest, LeafLfu, LeafLru, LeafTree
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kvsim.traces.reuse.accesses import Accesses
    from kvsim.traces.reuse.stores import Store
    from kvsim.traces.reuse.tree_replay import LeafPolicy

_QUEUES: Final[dict[str, Callable[[int], Store]]] = {
    "lru": Lru,
    "fifo": Fifo,
    "lfu": Lfu,
    "sieve": Sieve,
    "s3-fifo": S3Fifo,
}
POLICIES: Final = ("lru", "fifo", "lfu", "sieve", "s3-fifo", "optimal")


def replay(accesses: Accesses, definition: str, policy: str, capacity: int) -> NDArray[np.bool_]:
    """Return for each block whether its look-up hits; O(blocks log capacity) in Python.

    Raises
    ------
    TraceError
        Unknown policy or a capacity below 1.
    """
    if policy not in POLICIES:
        raise TraceError(unknown("policy", policy, POLICIES))
    if capacity < 1:
        raise TraceError(f"capacity {capacity} is too small; allowed are whole numbers from 1")
    if definition == "plain":
        return _replay_plain(accesses, _plain_store(accesses, policy, capacity))
    leaf_policy = _leaf_policy(accesses, policy)
    if leaf_policy is not None:
        return _replay_leaves(accesses, LeafTree(capacity, leaf_policy))
    return _replay_queue(accesses, _QUEUES[policy](capacity))


def _plain_store(accesses: Accesses, policy: str, capacity: int) -> Store:
    if policy == "optimal":
        return Furthest(capacity, _next_touches(accesses.blocks))
    return _QUEUES[policy](capacity)


def _leaf_policy(accesses: Accesses, policy: str) -> LeafPolicy | None:
    if policy == "lru":
        return LeafLru()
    if policy == "lfu":
        return LeafLfu(accesses.longest_request)
    return LeafFurthest(accesses) if policy == "optimal" else None


def _next_touches(blocks: NDArray[np.int64]) -> list[int]:
    order = np.argsort(blocks, kind="stable")
    following = np.full(len(blocks), NO_MORE, dtype=np.int64)
    same = blocks[order[1:]] == blocks[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    touches: list[int] = following.tolist()
    return touches


def _replay_plain(accesses: Accesses, store: Store) -> NDArray[np.bool_]:
    access = store.access
    return np.fromiter(
        (access(block) for block in accesses.blocks.tolist()), np.bool_, len(accesses.blocks)
    )


def _replay_queue(accesses: Accesses, store: Store) -> NDArray[np.bool_]:
    hit = np.zeros(len(accesses.blocks), dtype=np.bool_)
    bounds, blocks = accesses.offsets.tolist(), accesses.blocks.tolist()
    for start, end in pairwise(bounds):
        path, count = blocks[start:end], 0
        for block in path:
            if block not in store:
                break
            count += 1
        hit[start : start + count] = True
        for block in path:
            store.access(block)
    return hit


def _replay_leaves(accesses: Accesses, tree: LeafTree) -> NDArray[np.bool_]:
    hit = np.zeros(len(accesses.blocks), dtype=np.bool_)
    bounds, blocks = accesses.offsets.tolist(), accesses.blocks.tolist()
    for request, (start, end) in enumerate(pairwise(bounds)):
        path = blocks[start:end]
        hit[start : start + tree.num_leading(path)] = True
        tree.insert(request, path)
    return hit
