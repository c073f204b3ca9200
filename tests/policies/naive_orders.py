"""Eviction orders written for plainness alone: all blocks are looked at for every victim."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Key = tuple[int, ...]
"""A block is named by the whole chain of ids up to it."""


@dataclass(eq=False)
class Resident:
    """A block with a key."""

    number: int
    key: Key
    created: int
    last: int
    user: int
    priority: int
    refs: int = 1
    hits: int = 1


class NaiveCache:
    """Resident blocks, and who of them may go: nobody holds it, and no child needs it."""

    def __init__(self, victim: Naive) -> None:
        self.blocks: list[Resident] = []
        self.order = victim

    def may_go(self, block: Resident) -> bool:
        if block.refs:
            return False
        copies = [other for other in self.blocks if other.key == block.key]
        children = [other for other in self.blocks if other.key[:-1] == block.key]
        return len(copies) > 1 or not children

    def evict(self) -> Resident:
        victim = self.order.victim([block for block in self.blocks if self.may_go(block)])
        self.blocks.remove(victim)
        self.order.evicted(victim)
        return victim


class Naive:
    """One order; ``victim`` picks among candidates, which are in no particular order."""

    def inserted(self, block: Resident) -> None: ...
    def hit(self, block: Resident) -> None: ...
    def evicted(self, block: Resident) -> None: ...
    def victim(self, candidates: list[Resident]) -> Resident:
        raise NotImplementedError


class NaiveKey(Naive):
    def __init__(self, key: Callable[[Resident], tuple[int, ...]]) -> None:
        self.key = key

    def victim(self, candidates: list[Resident]) -> Resident:
        return min(candidates, key=self.key)


KEYS: dict[str, Callable[[Resident], tuple[int, ...]]] = {
    "lru": lambda b: (b.last,),
    "mru": lambda b: (-b.last,),
    "fifo": lambda b: (b.created,),
    "filo": lambda b: (-b.created,),
    "lfu": lambda b: (b.hits, b.last),
    "slru": lambda b: (1 if b.hits > 1 else 0, b.last),
    "length-aware": lambda b: (b.hits, -len(b.key), b.last),
    "priority": lambda b: (b.priority, b.last),
}


class NaiveFurthest(Naive):
    """``trace``: the chain of each request; blocks are looked up by all but its last id."""

    def __init__(self, trace: list[Key]) -> None:
        self.trace = trace

    def next_use(self, key: Key, after: int) -> int | None:
        for index, chain in enumerate(self.trace):
            if index > after and chain[:-1][: len(key)] == key:
                return index
        return None

    def victim(self, candidates: list[Resident]) -> Resident:
        def distance(block: Resident) -> tuple[int, int]:
            following = self.next_use(block.key, block.user)
            return (1000 if following is None else following, -block.last)

        return max(candidates, key=distance)


class NaiveGdsf(Naive):
    def __init__(self, prefill_ps: Callable[[int, int], int], block_size: int) -> None:
        self.prefill_ps, self.block_size = prefill_ps, block_size
        self.age = 0
        self.worth: dict[Resident, int] = {}

    def inserted(self, block: Resident) -> None:
        size = self.block_size
        past = size * (len(block.key) - 1)
        cost_ps = self.prefill_ps(size + 1, past) - self.prefill_ps(1, past + size)
        self.worth[block] = self.age + block.hits * cost_ps // size

    hit = inserted

    def evicted(self, block: Resident) -> None:
        self.age = self.worth.pop(block)

    def victim(self, candidates: list[Resident]) -> Resident:
        return min(candidates, key=lambda block: (self.worth[block], block.last))


class NaiveSieve(Naive):
    """A list from old to new; the hand is a place in it."""

    def __init__(self) -> None:
        self.queue: list[Resident] = []
        self.marked: set[Resident] = set()
        self.hand = 0

    def inserted(self, block: Resident) -> None:
        self.queue.append(block)

    def hit(self, block: Resident) -> None:
        self.marked.add(block)

    def victim(self, candidates: list[Resident]) -> Resident:
        while True:
            block = self.queue[self.hand]
            if block in candidates and block not in self.marked:
                return block
            if block in candidates:
                self.marked.remove(block)
            self.hand = (self.hand + 1) % len(self.queue)

    def evicted(self, block: Resident) -> None:
        assert self.queue.pop(self.hand) is block
        self.hand = 0 if self.hand == len(self.queue) else self.hand


class NaiveS3Fifo(Naive):
    def __init__(self) -> None:
        self.small: list[Resident] = []
        self.main: list[Resident] = []
        self.ghost: deque[Key] = deque()
        self.freq: dict[Resident, int] = {}
        self.from_small = False

    def inserted(self, block: Resident) -> None:
        self.freq[block] = 0
        if block.key in self.ghost:
            self.ghost.remove(block.key)
            self.main.append(block)
        else:
            self.small.append(block)

    def hit(self, block: Resident) -> None:
        self.freq[block] = min(self.freq[block] + 1, 3)

    def victim(self, candidates: list[Resident]) -> Resident:
        while True:
            small = [block for block in self.small if block in candidates]
            main = [block for block in self.main if block in candidates]
            full = len(self.small) >= (len(self.small) + len(self.main)) / 10
            self.from_small = bool(small) and (full or not main)
            if self.from_small:
                block = small[0]
                self.small.remove(block)
                if self.freq[block] <= 1:
                    return block
            else:
                block = main[0]
                self.main.remove(block)
                if not self.freq[block]:
                    return block
                self.freq[block] -= 1
            self.main.append(block)

    def evicted(self, block: Resident) -> None:
        if self.from_small:
            if block.key in self.ghost:
                self.ghost.remove(block.key)
            self.ghost.append(block.key)
            while len(self.ghost) > 0.9 * (len(self.small) + len(self.main)):
                self.ghost.popleft()
