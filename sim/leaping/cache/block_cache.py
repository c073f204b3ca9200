"""Prefix cache of the leaper, block by block, for orders that depend on admissions and releases.

It is for orders that do not evict blocks in runs: ``mru`` evicts the head of a second copy first,
``random`` draws blocks, and ``furthest-next-use`` has a separate distance for each block.

It has the methods of :class:`~kvsim.sim.leaping.cache.segment_cache.SegmentCache` and is exact for
the same reasons. Facts and leaf rule are those of the pool's
:class:`~kvsim.policies.allocators.cached_blocks.CachedBlocks`. Two things happen later than in the
stepper. Taken blocks are evicted (``settle``) before anything else changes. Generated blocks that
no other request can look up get their keys when they are released. So an order must not depend on
when a block was inserted (``AT_ADMISSIONS`` in :mod:`kvsim.policies.eviction`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvsim.policies.allocators.block_pool import Block
from kvsim.policies.allocators.cached_blocks import CachedBlocks, Use
from kvsim.sim.leaping.cache.pieces import NOTHING_FOUND, BlockCounts, Found

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kvsim.policies.eviction import EvictionOrder
    from kvsim.sim.leaping.cache.pieces import Holding, Path


class BlockCache(BlockCounts):
    """See the module docstring."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        segment_start: Sequence[int],
        order: EvictionOrder[Block],
        capacity: float | None,
    ) -> None:
        super().__init__(num_blocks)
        self._block_size = block_size
        self._start = segment_start
        self._most_cached = math.inf if capacity is None else capacity
        self._index: dict[Hashable, dict[int, Block]] = {}
        self._cached = CachedBlocks(self._index, order)
        self._num_present: dict[int, int] = {}
        self._num_made = 0
        self._found: list[Block] = []
        self._held: dict[int, list[Block]] = {}

    def settle(self) -> None:
        """Evict the blocks that were taken but not chosen yet."""
        while self._owed:
            self._owed -= 1
            self._evict()

    def end_of(self, segment: int) -> int:
        """Return the depth up to which a segment is present; 0 if it is absent."""
        present = self._num_present.get(segment, 0)
        return self._start[segment] + present if present else 0

    def find(self, path: Path, max_blocks: int) -> Found:
        """Return the longest leading run of at most ``max_blocks`` blocks; calls ``settle``."""
        self.settle()
        found: list[Block] = []
        depth = num_free = 0
        for segment, leaves in path:
            end = min(leaves, max_blocks)
            while depth < end:
                copies = self._index.get((0, (-1 - segment, depth)))
                if not copies:
                    break
                block = next(iter(copies.values()))
                found.append(block)
                num_free += not block.ref_count
                depth += 1
            if depth < end or depth == max_blocks:
                break
        self._found = found
        return Found(depth, num_free, []) if found else NOTHING_FOUND

    def hold(self, holding: Holding, found: Found) -> None:
        """Reference what was just found."""
        assert found.num_blocks == len(self._found), "something else was found last"
        index = _index_of(holding)
        use = Use(index, counts=not holding.held_before)
        holding.held_before = True
        for block in self._found:
            if not block.ref_count:
                self.num_cached -= 1
                self.num_duplicates += self._is_shared(block)
            else:
                self.num_shared += 1
            block.ref_count += 1
            self._cached.used(block, use)
        self._held[index] = self._found
        self._found = []
        holding.published = found.num_blocks
        holding.place = 0

    def publish(self, holding: Holding, upto: int, *, private: bool = False) -> None:
        """Set the keys of the holder's blocks up to depth ``upto``, as ``SegmentCache.publish``."""
        if holding.published >= upto:
            return
        self.settle()
        index, path = _index_of(holding), holding.path
        held, use = self._held[index], Use(index)
        while holding.published < upto:
            while holding.published >= path[holding.place][1]:
                holding.place += 1
            segment = path[holding.place][0]
            if segment < 0 and not private:
                return
            depth = holding.published
            self._num_made += 1
            block = Block(self._num_made, self._block_size)
            block.key = (0, (-1 - segment, depth))
            copies = self._index.setdefault(block.key, {})
            if not copies:
                self._num_present[segment] = self._num_present.get(segment, 0) + 1
            self.num_duplicates += self._is_shared(block)
            copies[block.id] = block
            block.ref_count = 1
            parent = held[-1].key if held else None
            self._cached.inserted(block, parent, depth * self._block_size, use)
            held.append(block)
            holding.published += 1

    def release(self, holding: Holding, num_blocks: int, published: int) -> None:
        """Release ``num_blocks`` blocks, ``published`` of them with keys; last one first."""
        held = self._held.get(_index_of(holding)) if holding.path else None
        if held is None:
            self.num_blank += num_blocks
            return
        self.settle()
        self.publish(holding, published, private=True)
        self.num_blank += num_blocks - holding.published
        for block in reversed(held):
            block.ref_count -= 1
            if block.ref_count:
                self.num_shared -= 1
            else:
                self.num_cached += 1
                self.num_duplicates -= self._is_shared(block)
                self._cached.released(block)
        del self._held[_index_of(holding)]
        holding.published = holding.place = 0
        while self.num_cached > self._most_cached:
            self.num_cached -= 1
            self.num_evicted += 1
            self.num_blank += 1
            self._evict()

    def _evict(self) -> None:
        block = self._cached.victim()
        copies = self._index[block.key]
        del copies[block.id]
        if not copies:
            del self._index[block.key]
            segment = -1 - block.key[1][0]  # type: ignore[index]
            self._num_present[segment] -= 1
        self._cached.evicted(block)

    def _is_shared(self, block: Block) -> bool:
        """Whether another copy of a block is referenced."""
        copies = self._index[block.key]
        if len(copies) < 2 and block.id in copies:
            return False
        return any(copy.ref_count and copy is not block for copy in copies.values())

    def check_invariants(self, num_blocks: int, num_unkeyed: int) -> None:
        """Verify counts; ``num_unkeyed`` owned blocks have no key yet; O(blocks)."""
        self.settle()
        self._cached.check_invariants()
        keyed = [block for copies in self._index.values() for block in copies.values()]
        cached = sum(not block.ref_count for block in keyed)
        assert cached == self.num_cached <= self._most_cached, "cached count is off"
        owned = [[b for b in copies.values() if b.ref_count] for copies in self._index.values()]
        duplicates = sum(max(len(copies) - 1, 0) for copies in owned)
        assert duplicates == self.num_duplicates, "duplicate count is off"
        shared = sum(block.ref_count - 1 for copies in owned for block in copies)
        assert shared == self.num_shared, "shared count is off"
        total = sum(map(len, owned)) + num_unkeyed + self.num_free
        assert total == num_blocks, f"{total} blocks accounted for, the pool has {num_blocks}"


def _index_of(holding: Holding) -> int:
    """Return the request of a holding: the private end of its path has the index."""
    return -1 - holding.path[-1][0]
