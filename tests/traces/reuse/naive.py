"""Caches written so plainly that they are their own proof, to compare the quick ones with.

All take requests as lists of ids and return, for each request, a list of booleans (hit or not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Chain = tuple[int, ...]
NEVER = 10**9


def chains(request: Sequence[int]) -> list[Chain]:
    """The nodes of a request in the prefix tree: all its beginnings."""
    return [tuple(request[: depth + 1]) for depth in range(len(request))]


def leading(hits: list[bool]) -> list[bool]:
    return [all(hits[: place + 1]) for place in range(len(hits))]


def plain(requests: list[list[int]], capacity: int, policy: str) -> list[list[bool]]:
    """Ordinary block cache; the touches of each resident block are kept since its insertion."""
    touches = [block for request in requests for block in request]
    resident: dict[int, list[int]] = {}

    def next_touch(block: int, now: int) -> int:
        return next((t for t in range(now, len(touches)) if touches[t] == block), NEVER + block)

    out, now = [], 0
    for request in requests:
        hits = []
        for block in request:
            hits.append(block in resident)
            if block not in resident and len(resident) == capacity:
                worth = {
                    other: {
                        "lru": (uses[-1],),
                        "fifo": (uses[0],),
                        "lfu": (len(uses), uses[-1]),
                        "optimal": (-next_touch(other, now),),
                    }[policy]
                    for other, uses in resident.items()
                }
                del resident[min(worth, key=lambda other: worth[other])]
            resident.setdefault(block, []).append(now)
            now += 1
        out.append(hits)
    return out


def tree(requests: list[list[int]], capacity: int, policy: str) -> list[list[bool]]:
    """Prefix tree from which leaves are evicted; nodes are chains of ids."""
    nodes = [chains(request) for request in requests]
    resident: dict[Chain, list[int]] = {}

    def next_use(node: Chain, now: int) -> int:
        return next((r for r in range(now + 1, len(nodes)) if node in nodes[r]), NEVER)

    def worth(node: Chain, now: int) -> tuple[float, ...]:
        uses = resident.get(node, [now])
        if policy == "lru":
            return (uses[-1], -len(node))
        if policy == "lfu":
            return (len(uses), uses[-1], -len(node))
        return (-next_use(node, now),)

    out = []
    for now, path in enumerate(nodes):
        hits = leading([node in resident for node in path])
        out.append(hits)
        for node, hit in zip(path, hits, strict=True):
            if hit:
                resident[node].append(now)
        for node in path[sum(hits) :]:
            if len(resident) == capacity:
                leaves = [
                    leaf
                    for leaf in resident
                    if leaf not in path and not any(o[:-1] == leaf for o in resident)
                ]
                victim = min(leaves, key=lambda leaf: worth(leaf, now), default=None)
                declines = policy == "optimal"
                if victim is None or (declines and worth(victim, now) >= worth(node, now)):
                    break
                del resident[victim]
            resident[node] = [now]
    return out


def queue_on_tree(requests: list[list[int]], store: Sieve | S3Fifo | Fifo) -> list[list[bool]]:
    """Leading runs only, interior blocks may go; ``store`` holds chains."""
    out = []
    for path in map(chains, requests):
        out.append(leading([node in store.blocks() for node in path]))
        for node in path:
            store.access(node)
    return out


def queue_plain(requests: list[list[int]], store: Sieve | S3Fifo | Fifo) -> list[list[bool]]:
    return [[store.access((block,)) for block in request] for request in requests]


class Fifo:
    def __init__(self, capacity: int) -> None:
        self.capacity, self.queue = capacity, list[Chain]()

    def blocks(self) -> list[Chain]:
        return self.queue

    def access(self, block: Chain) -> bool:
        if block in self.queue:
            return True
        self.queue = [*self.queue, block][-self.capacity :]
        return False


class Sieve:
    """The queue as a list, oldest first; the hand is an index."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.hand = capacity, 0
        self.queue: list[Chain] = []
        self.marks: set[Chain] = set()

    def blocks(self) -> list[Chain]:
        return self.queue

    def access(self, block: Chain) -> bool:
        if block in self.queue:
            self.marks.add(block)
            return True
        if len(self.queue) == self.capacity:
            while self.queue[self.hand % self.capacity] in self.marks:
                self.marks.remove(self.queue[self.hand % self.capacity])
                self.hand += 1
            self.hand %= self.capacity
            del self.queue[self.hand]
            if self.hand == len(self.queue):
                self.hand = 0
        self.queue.append(block)
        return False


class S3Fifo:
    """Queues as lists, oldest first, of [block, hits]."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.small_size = max(1, capacity // 10)
        self.small: list[Chain] = []
        self.main: list[Chain] = []
        self.ghost: list[Chain] = []
        self.hits: dict[Chain, int] = {}

    def blocks(self) -> list[Chain]:
        return self.small + self.main

    def access(self, block: Chain) -> bool:
        if block in self.blocks():
            self.hits[block] = min(3, self.hits[block] + 1)
            return True
        if len(self.blocks()) == self.capacity:
            self.evict()
        if block in self.ghost:
            self.ghost.remove(block)
            self.main.append(block)
        else:
            self.small.append(block)
        self.hits[block] = 0
        return False

    def evict(self) -> None:
        before = len(self.blocks())
        if len(self.small) >= self.small_size:
            while self.small and len(self.blocks()) == before:
                block = self.small.pop(0)
                if self.hits[block] < 2:
                    room = self.capacity - self.small_size
                    self.ghost = [*self.ghost, block][-room:] if room else []
                else:
                    self.main.append(block)
                    if len(self.main) > self.capacity - self.small_size:
                        self.evict_main()
        if len(self.blocks()) == before:
            self.evict_main()

    def evict_main(self) -> None:
        while True:
            block = self.main.pop(0)
            if self.hits[block] == 0:
                return
            self.hits[block] -= 1
            self.main.append(block)
