"""Prefix-tree caches in which leaves alone are evicted, replayed request by request.

Each request is looked up (its leading run of cached blocks) and then inserted from the head on.
A full cache evicts the leaf of least worth that is not on the request's own path; where there is
none, or where the policy may decline and the new block is worth no more, the rest of the request
stays out. So a request longer than the cache leaves its head.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol

from kvsim.traces.reuse.stores import NO_MORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.traces.reuse.accesses import Accesses

Worth = tuple[int, int]
"""What is evicted first is the smallest."""


class LeafPolicy(Protocol):
    """What a cached block is worth; a block's parent is never worth less than the block."""

    may_decline: bool

    def worth(self, request: int, depth: int, node: int, before: Worth | None) -> Worth:
        """Worth of a node that ``request`` touches; ``before`` is None where it comes in."""
        ...


class LeafLru:
    """Least recently used; a request's head is more recent than its tail."""

    may_decline = False

    def worth(self, request: int, depth: int, node: int, before: Worth | None) -> Worth:
        """Last request, and depth from below."""
        del node, before
        return request, -depth


class LeafLfu:
    """Fewest requests since its insertion, then least recently used."""

    may_decline = False

    def __init__(self, most_blocks: int) -> None:
        self._most_blocks = most_blocks

    def worth(self, request: int, depth: int, node: int, before: Worth | None) -> Worth:
        """Count, and recency as one number."""
        del node
        return (before[0] if before else 0) + 1, request * self._most_blocks - depth


class LeafFurthest:
    """Furthest next use; a new block whose next use is no nearer than any leaf's is declined."""

    may_decline = True

    def __init__(self, accesses: Accesses) -> None:
        self._next_use = next_requests(accesses)
        self._offsets = accesses.offsets.tolist()

    def worth(self, request: int, depth: int, node: int, before: Worth | None) -> Worth:
        """Less the later the next request that holds the node."""
        del node, before
        return -self._next_use[self._offsets[request] + depth], 0


def next_requests(accesses: Accesses) -> list[int]:
    """For each block the next request that touches it, :data:`NO_MORE` where none does."""
    due = [NO_MORE] * len(accesses.blocks)
    next_use = [NO_MORE] * accesses.num_blocks
    bounds, blocks = accesses.offsets.tolist(), accesses.blocks.tolist()
    for request in reversed(range(len(accesses))):
        for index in range(bounds[request], bounds[request + 1]):
            due[index] = next_use[blocks[index]]
        for index in range(bounds[request], bounds[request + 1]):
            next_use[blocks[index]] = request
    return due


class LeafTree:
    """The cached tree: worths, numbers of children, and a heap of leaves (lazily cleaned)."""

    def __init__(self, capacity: int, policy: LeafPolicy) -> None:
        self._capacity = capacity
        self._policy = policy
        self._worth: dict[int, Worth] = {}
        self._children: dict[int, int] = {}
        self._parent: dict[int, int] = {}
        self._leaves: list[tuple[Worth, int]] = []

    def num_leading(self, path: Sequence[int]) -> int:
        """Count the cached blocks at the head of a path."""
        count = 0
        for node in path:
            if node not in self._worth:
                break
            count += 1
        return count

    def insert(self, request: int, path: Sequence[int]) -> None:
        """Touch the cached head of a path and take in as much of the rest as fits."""
        cached = self.num_leading(path)
        held = set(path[:cached])
        for depth in range(cached):
            self._set(request, depth, path)
        for depth in range(cached, len(path)):
            worth = self._policy.worth(request, depth, path[depth], None)
            if len(self._worth) >= self._capacity and not self._make_room(held, worth):
                return
            if depth:
                self._parent[path[depth]] = path[depth - 1]
                self._children[path[depth - 1]] += 1
            self._children[path[depth]] = 0
            self._set(request, depth, path)
            held.add(path[depth])

    def _set(self, request: int, depth: int, path: Sequence[int]) -> None:
        node = path[depth]
        worth = self._policy.worth(request, depth, node, self._worth.get(node))
        self._worth[node] = worth
        if not self._children[node]:
            heapq.heappush(self._leaves, (worth, node))

    def _make_room(self, held: set[int], new_worth: Worth) -> bool:
        """Evict a leaf outside ``held``; False where there is none, or it is worth keeping."""
        kept: tuple[Worth, int] | None = None
        victim = None
        while self._leaves and victim is None:
            worth, node = self._leaves[0]
            if self._worth.get(node) != worth or self._children[node]:
                heapq.heappop(self._leaves)
            elif node in held:  # the deepest block of the path alone can be one
                kept = heapq.heappop(self._leaves)
            elif self._policy.may_decline and worth >= new_worth:
                break
            else:
                heapq.heappop(self._leaves)
                victim = node
        if kept is not None:
            heapq.heappush(self._leaves, kept)
        if victim is not None:
            self._remove(victim)
        return victim is not None

    def _remove(self, leaf: int) -> None:
        del self._worth[leaf], self._children[leaf]
        parent = self._parent.pop(leaf, None)
        if parent is None:
            return
        self._children[parent] -= 1
        if not self._children[parent]:
            heapq.heappush(self._leaves, (self._worth[parent], parent))
