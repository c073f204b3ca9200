"""Physical KV blocks: one free queue, one index of cached keys (vLLM 0.32.0, v1/core/block_pool).

    null   free queue                         held by sequences
    [0]    front [7] [3] ... [9] [2] back     [1]x2 [4] [5] ...
           taken here       blocks with a key
                            return here

A free block that still has a key loses it when it is taken. There is no other eviction. Blocks
without a key return to the front (0.32.0) or to the back (0.12.0, 0.8.5) of the queue.

That is LRU by the time at which blocks are released. Under any other eviction order the queue holds
only blocks without a key. These are taken first. Then :class:`CachedBlocks` chooses the next block
with a key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.cached_blocks import CachedBlocks, Use

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from kvsim.policies.eviction.base import EvictionOrder

NOBODY: Final = Use()


class Block:
    """One physical block; ``previous`` and ``next`` are its neighbours in the free queue.

    The fields after ``ref_count`` are the facts of
    :class:`~kvsim.policies.eviction.base.NamedEntry`. They are kept only if the pool has an
    eviction order.
    """

    __slots__ = (
        "created",
        "id",
        "key",
        "last_access",
        "last_user",
        "next",
        "num_hits",
        "num_tokens",
        "past",
        "previous",
        "priority",
        "ref_count",
    )

    def __init__(self, block_id: int, num_tokens: int = 1) -> None:
        self.id = block_id
        self.num_tokens = num_tokens
        self.created = self.last_access = self.num_hits = self.priority = self.past = 0
        self.last_user = -1
        self.key: Hashable | None = None
        self.ref_count = 0
        self.previous: Block | None = None
        self.next: Block | None = None

    def __repr__(self) -> str:
        return f"<block {self.id} refs={self.ref_count} key={self.key}>"


class FreeQueue:
    """A doubly linked list, so that a hit block can be removed from the middle in O(1)."""

    __slots__ = ("_head", "_tail", "num_blocks")

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._head, self._tail = Block(-1), Block(-2)
        self._head.next, self._tail.previous = self._tail, self._head
        self.num_blocks = 0
        for block in blocks:
            self.push_back(block)

    def pop_front(self) -> Block:
        """Remove and return the first block; the queue must not be empty."""
        block = self._head.next
        assert block is not None
        assert block is not self._tail, "the free queue is empty"
        self.remove(block)
        return block

    def remove(self, block: Block) -> None:
        """Remove a block at any position; O(1)."""
        assert block.previous is not None
        assert block.next is not None
        block.previous.next, block.next.previous = block.next, block.previous
        block.previous = block.next = None
        self.num_blocks -= 1

    def push_back(self, block: Block) -> None:
        """Append at the end; O(1)."""
        self._insert_before(block, self._tail)

    def push_front(self, blocks: Sequence[Block]) -> None:
        """Insert blocks at the front, the first of them first."""
        for block in reversed(blocks):
            first = self._head.next
            assert first is not None
            self._insert_before(block, first)

    def _insert_before(self, block: Block, other: Block) -> None:
        before = other.previous
        assert before is not None
        block.previous, block.next = before, other
        before.next = other.previous = block
        self.num_blocks += 1

    def __iter__(self) -> Iterator[Block]:
        block = self._head.next
        while block is not self._tail:
            assert block is not None
            yield block
            block = block.next


class BlockPool:
    """All blocks except the null block, which replaces the blocks that fell out of a window.

    ``num_duplicates`` counts held blocks with a key that an earlier held block also has.
    ``num_shared`` counts the references beyond the first of each block. ``num_cached_free`` counts
    the unreferenced blocks with a key. ``num_evicted`` counts all keys lost so far.

    ``order``: the eviction order; ``None`` = the one free queue. ``capacity``: the most
    unreferenced blocks that stay cached; ``None`` = as many as the pool holds. With ``math.inf``
    evicted content stays findable without memory. A lookup returns the block ``absent`` for it. A
    sequence that is admitted with such a hit takes a free block, which is filled at no cost.
    """

    def __init__(
        self,
        num_gpu_blocks: int,
        *,
        unkeyed_to_front: bool = True,
        block_size: int = 1,
        order: EvictionOrder[Block] | None = None,
        capacity: float | None = None,
    ) -> None:
        assert order is not None or capacity in (None, math.inf), "the free queue has no limit"
        self.null = Block(0)
        self.absent = Block(-3)
        self._blocks = [Block(i, block_size) for i in range(1, num_gpu_blocks)]
        self.free_queue = FreeQueue(self._blocks)
        self.index: dict[Hashable, dict[int, Block]] = {}
        self.num_cached_free = 0
        self.num_duplicates = 0
        self.num_shared = 0
        self.num_evicted = 0
        self.evicted_ids: list[int] = []
        self._unkeyed_to_front = unkeyed_to_front
        self._num_owned: dict[Hashable, int] = {}
        self._cached = None if order is None else CachedBlocks(self.index, order)
        self._most_cached = math.inf if capacity is None else capacity
        self._stored: set[Hashable] | None = set() if capacity == math.inf else None

    @property
    def num_free(self) -> int:
        """Number of blocks that can be allocated, including cached ones."""
        if self._cached is None:
            return self.free_queue.num_blocks
        return self.free_queue.num_blocks + self.num_cached_free

    def lookup(self, key: Hashable) -> Block | None:
        """Return the block inserted first under ``key``, or ``absent``; changes nothing."""
        copies = self.index.get(key)
        if copies:
            return next(iter(copies.values()))
        return self.absent if self._stored and key in self._stored else None

    def take(self, count: int) -> list[Block]:
        """Take free blocks, those without a key first (see the module); others lose their keys."""
        taken = []
        for _ in range(count):
            if self._cached is None or self.free_queue.num_blocks:
                block = self.free_queue.pop_front()
            else:
                block = self._cached.victim()
            if block.key is not None:
                self._evict(block)
            block.ref_count = 1
            taken.append(block)
        return taken

    def touch(self, block: Block, use: Use = NOBODY) -> None:
        """Reference a cached block; it leaves the free queue if no sequence held it."""
        if block.ref_count == 0:
            if self._cached is None:
                self.free_queue.remove(block)
            self.num_cached_free -= 1
            self._owned(block.key, 1)
        else:
            self.num_shared += 1
        block.ref_count += 1
        if self._cached is not None:
            self._cached.used(block, use)

    def share(self, block: Block) -> None:
        """Add a reference to a block that is held already."""
        assert block.ref_count > 0, f"{block} is not held"
        self.num_shared += 1
        block.ref_count += 1

    def set_key(
        self,
        block: Block,
        key: Hashable,
        *,
        parent: Hashable | None = None,
        past: int = 0,
        use: Use = NOBODY,
    ) -> None:
        """Insert a held full block into the index, behind older copies of the same key.

        ``parent``: key of the block before it, if that block must not be evicted first. ``past``:
        tokens before the block.
        """
        assert block.key is None, f"{block} has a key already"
        block.key = key
        self.index.setdefault(key, {})[block.id] = block
        self._owned(key, 1)
        if self._stored is not None:
            self._stored.discard(key)
        if self._cached is not None:
            self._cached.inserted(block, parent, past, use)

    def release(self, blocks: Iterable[Block]) -> None:
        """Drop one reference of each block, in the given order (callers pass last blocks first)."""
        front: list[Block] = []
        back: list[Block] = []
        for block in blocks:
            if block is self.null:
                continue
            assert block.ref_count > 0, f"{block} is released twice"
            block.ref_count -= 1
            if block.ref_count:
                self.num_shared -= 1
            else:
                to_front = block.key is None and self._unkeyed_to_front
                (front if to_front else back).append(block)
        self.free_queue.push_front(front)
        for block in back:
            if block.key is None or self._cached is None:
                self.free_queue.push_back(block)
            if block.key is not None:
                self.num_cached_free += 1
                self._owned(block.key, -1)
                if self._cached is not None:
                    self._cached.released(block)
        while self._cached is not None and self.num_cached_free > self._most_cached:
            block = self._cached.victim()
            self._evict(block)
            self.free_queue.push_front([block])

    def _evict(self, block: Block) -> None:
        """Remove the key of an unreferenced block."""
        key = block.key
        copies = self.index[key]
        del copies[block.id]
        if not copies:
            del self.index[key]
            if self._stored is not None:
                self._stored.add(key)
        if self._cached is not None:
            self._cached.evicted(block)
        block.key = None
        self.num_cached_free -= 1
        self.num_evicted += 1
        self.evicted_ids.append(block.id)

    def _owned(self, key: Hashable, change: int) -> None:
        """Count the held blocks under one key; each beyond the first is a duplicate."""
        before = self._num_owned.get(key, 0)
        after = before + change
        self.num_duplicates += max(after - 1, 0) - max(before - 1, 0)
        if after:
            self._num_owned[key] = after
        else:
            del self._num_owned[key]

    def check_invariants(self) -> None:
        """Verify queue, index and counters against the blocks themselves; O(pool)."""
        queued = list(self.free_queue)
        assert len(queued) == self.free_queue.num_blocks, "free queue count is off"
        assert len({block.id for block in queued}) == len(queued), "a block is queued twice"
        assert all(block.ref_count == 0 for block in queued), "a referenced block is queued"
        owned = [block for block in self._blocks if block.ref_count]
        cached = [block for block in self._blocks if block.key is not None and not block.ref_count]
        if self._cached is not None:
            assert all(block.key is None for block in queued), "a cached block is queued as blank"
            queued += cached
            self._cached.check_invariants()
        assert len(owned) + len(queued) == len(self._blocks), "a block is lost"
        shared = sum(block.ref_count - 1 for block in owned)
        assert shared == self.num_shared, "shared count is off"
        assert len(cached) == self.num_cached_free, "cached count is off"
        assert len(cached) <= self._most_cached, "more blocks are cached than the limit allows"
        keyed = {block.id for block in self._blocks if block.key is not None}
        indexed = [block_id for copies in self.index.values() for block_id in copies]
        assert len(indexed) == len(keyed), "index and keys differ"
        assert set(indexed) == keyed, "index and keys differ"
        keys = [block.key for block in owned if block.key is not None]
        assert len(keys) - len(set(keys)) == self.num_duplicates, "duplicate count is off"
