"""Paged blocks with a hash-chained prefix cache (vLLM 0.32.0, v1/core/kv_cache_manager).

All KV groups use one pool. A sequence gets the blocks of all groups or none.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import cycle
from operator import and_
from typing import TYPE_CHECKING

from kvsim.policies.allocators.base import Hit, Usage
from kvsim.policies.allocators.block_pool import BlockPool
from kvsim.policies.allocators.kv_group import GroupTables
from kvsim.policies.allocators.relocations import Relocations
from kvsim.policies.eviction import make_order
from kvsim.policies.retention import make_retention

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction import EvictionOrder
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


def block_order(context: PolicyContext) -> EvictionOrder[Block] | None:
    """Return the eviction order of cached blocks; ``None`` if vLLM's free queue is that order."""
    config = context.config
    eviction = config.eviction
    own_queue = eviction.policy == "lru" and eviction.capacity in (None, math.inf)
    if own_queue or not config.enable_prefix_caching:
        return None
    return make_order(eviction.policy, context)


def _in_order_of_lookup(groups: list[GroupTables]) -> list[list[GroupTables]]:
    """Return groups that keep the same tokens together: full attention, then in engine order."""
    kinds: dict[int | None, list[GroupTables]] = {}
    for group in groups:
        kinds.setdefault(group.window, []).append(group)
    return sorted(kinds.values(), key=lambda alike: alike[0].window is not None)


class PagedAllocator:
    """Block tables and prefix cache of one engine; see the module docstring.

    ``order``: the eviction order of cached blocks; ``None`` = LRU by vLLM's free queue. ``seed``:
    the seed of retention's random draws.
    """

    uses_oracle = False

    def __init__(
        self,
        config: SchedulerConfig,
        order: EvictionOrder[Block] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self._block_size = config.block_size
        self._max_model_len = config.max_model_len
        self._caching = config.enable_prefix_caching
        self._watermark_blocks = int(config.batching.watermark * config.num_gpu_blocks)
        self._reserve = config.batching.scheduler_reserve_full_isl
        self.pool = BlockPool(
            config.num_gpu_blocks,
            unkeyed_to_front=config.allocator.freed_blocks_without_key == "front",
            block_size=config.block_size,
            order=order,
            capacity=config.eviction.capacity if self._caching else None,
        )
        packs = not config.keeps_everything and config.retention.compaction != "none"
        self.relocations = Relocations() if packs else None
        in_flight = config.max_num_batched_tokens * (2 if config.async_scheduling else 1)
        self.groups = [
            GroupTables(
                number,
                self.pool,
                config.block_size,
                make_retention(config, group, seed),
                config.retention.prefix_cache_retention_interval,
                config.max_model_len,
                in_flight,
                self.relocations,
            )
            for number, group in enumerate(config.kv_groups)
        ]
        self._looked_up = _in_order_of_lookup(self.groups)

    @property
    def num_spare(self) -> int:
        """Number of free blocks, including cached ones."""
        return self.pool.num_free

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Return the blocks beyond the hit, plus the hit's blocks that no other sequence holds."""
        tokens = min(tokens, self._max_model_len)
        return sum(
            group.num_free_hit_blocks(sequence, blocks, hit.tokens)
            + group.num_needed_at_admission(blocks, tokens)
            for group, blocks in zip(self.groups, hit.blocks, strict=True)
        )

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return the blocks that the tables need."""
        return sum(group.num_needed(sequence, tokens) for group in self.groups)

    def find_hit(self, sequence: Sequence) -> Hit:
        """Return the longest hit, at most all known tokens but one; changes nothing.

        The kinds of groups shorten the hit in turn until all of them have it, full attention first.
        """
        hits: list[list[Block]] = [[] for _ in self.groups]
        if not self._caching:
            return Hit(0, tuple(hits), 0)
        length, longest = (sequence.num_tokens - 1) // self._block_size, 0
        num_agreed = 0
        for alike in cycle(self._looked_up):
            if num_agreed == len(self._looked_up):
                break
            num_agreed += 1
            if alike[0].window is None and longest:
                continue  # every shorter hit is possible too
            found = GroupTables.find_hit(alike, sequence, length)
            if len(found[0]) < length:
                length, num_agreed = len(found[0]), 1
            longest = max(longest, length)
            for group, blocks in zip(alike, found, strict=True):
                hits[group.number] = blocks
        hits = [blocks[:length] for blocks in hits]
        return Hit(length * self._block_size, tuple(hits), longest * self._block_size)

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Return why a waiting sequence cannot be admitted: ``blocks`` or ``admission rule``.

        The result is ``None`` if it can be admitted. The chunk must fit and leave the watermark
        free. With ``scheduler_reserve_full_isl`` the whole sequence must fit. The watermark counts
        only while a sequence runs (``idle`` is false).
        """
        keep = 0 if idle else self._watermark_blocks
        pairs = list(zip(self.groups, hit.blocks, strict=True))
        extra = sum(
            group.num_free_hit_blocks(sequence, blocks, hit.tokens) for group, blocks in pairs
        )
        free = self.pool.num_free
        tokens = min(hit.tokens + new_tokens, self._max_model_len)
        chunk = extra + sum(
            group.num_needed_at_admission(blocks, tokens) for group, blocks in pairs
        )
        if chunk > free:
            return "blocks"
        whole = min(sequence.num_tokens, self._max_model_len)
        reserve = extra + sum(group.num_reserved(blocks, whole) for group, blocks in pairs)
        if chunk + keep > free or (self._reserve and reserve + keep > free):
            return "admission rule"
        return None

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Reference the hit, take the chunk's blocks, and set the keys of the blocks it fills."""
        sequence.junction_blocks = 0
        if hit.longest_tokens > hit.tokens:
            sequence.junction_blocks = hit.longest_tokens // self._block_size
        for group, blocks in zip(self.groups, hit.blocks, strict=True):
            group.admit(sequence, blocks, hit.tokens)
        for group in self.groups:
            group.restore(sequence)
        for group in self.groups:
            group.extend(sequence, hit.tokens + new_tokens)
        self.set_keys(sequence, min(hit.tokens + new_tokens, sequence.num_tokens))

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Give a running sequence room for ``new_tokens`` more; return False without room.

        Blocks without kept tokens are freed first, even if the call then returns False. On False no
        block is taken.
        """
        tokens = sequence.num_computed_tokens + new_tokens
        for group in self.groups:
            if group.retention.size is not None:
                group.drop(sequence)
        if self.num_lacking(sequence, tokens) > self.pool.num_free:
            return False
        for group in self.groups:
            group.extend(sequence, tokens)
        self.set_keys(sequence, min(tokens, sequence.num_tokens))
        return True

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Set the keys of the full blocks of the first ``tokens`` tokens."""
        if self._caching:
            for group in self.groups:
                group.set_keys(sequence, tokens)

    def finish(self, sequence: Sequence) -> None:
        """Free all blocks; keys stay."""
        self.release(sequence)

    def release(self, sequence: Sequence) -> None:
        """Free all blocks of a sequence, group by group, last one first."""
        for group in self.groups:
            group.release(sequence)

    # ---- to the host and back ----------------------------------------------------------------

    def swap_out(self, sequence: Sequence) -> None:
        """Free all blocks, as :meth:`release` does, but keep the shape of the tables."""
        for group in self.groups:
            group.swap_out(sequence)

    def swap_in_refusal(self, sequence: Sequence, new_tokens: int, *, idle: bool) -> str | None:
        """Return why a sequence cannot be swapped in now, with room for ``new_tokens`` more.

        The watermark counts as at admission (vLLM v0, ``can_swap_in``).
        """
        needed = self._num_needed_at_swap_in(sequence, new_tokens)
        if needed > self.pool.num_free:
            return "blocks"
        keep = 0 if idle else self._watermark_blocks
        return "admission rule" if needed + keep > self.pool.num_free else None

    def _num_needed_at_swap_in(self, sequence: Sequence, new_tokens: int) -> int:
        tokens = sequence.num_computed_tokens + new_tokens
        return sum(group.num_needed_at_swap_in(sequence, tokens) for group in self.groups)

    def swap_in(self, sequence: Sequence, new_tokens: int) -> None:
        """Take new blocks for all it had and for ``new_tokens`` more; full blocks get keys."""
        tokens = sequence.num_computed_tokens + new_tokens
        for group in self.groups:
            group.swap_in(sequence, tokens)
        self.set_keys(sequence, min(tokens, sequence.num_tokens))

    def forget_swapped(self, sequence: Sequence) -> None:
        """Forget a swapped sequence, which will not be swapped in."""
        for group in self.groups:
            group.forget(sequence)

    # ---- accounts ----------------------------------------------------------------------------

    @property
    def num_evicted(self) -> int:
        """Number of cached blocks evicted so far."""
        return self.pool.num_evicted

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether a block begins between ``sequence.num_computed_tokens`` and ``tokens``."""
        size = self._block_size
        return -(-tokens // size) > -(-sequence.num_computed_tokens // size)

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the free end of a sequence's last block, in each group."""
        return -tokens % self._block_size * len(self.groups)

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; holes are padding; O(running), and O(blocks with holes)."""
        pool, size = self.pool, self._block_size
        empty = 0
        for sequence in running:
            for group in self.groups:
                empty += len(group.tables[sequence.index]) * size - sequence.num_computed_tokens
        blank, cached = pool.num_free - pool.num_cached_free, pool.num_cached_free
        duplicate, shared = pool.num_duplicates * size, pool.num_shared * size
        return Usage(blank * size, cached * size, empty, duplicate, self._num_holes(), shared)

    def _num_holes(self) -> int:
        """Return the slots with a token that no holder of the block, or of a copy of it, keeps."""
        num_holes, index = 0, self.pool.index
        shared: dict[Hashable, list[int]] = {}
        for block, mask in self._masks():
            if block.key is None or (block.ref_count == 1 and len(index[block.key]) == 1):
                num_holes += mask.bit_count()
            else:
                shared.setdefault(block.key, []).append(mask)
        for key, masks in shared.items():
            if len(masks) == sum(block.ref_count for block in index[key].values()):
                num_holes += reduce(and_, masks).bit_count()
        return num_holes

    def _masks(self) -> Iterator[tuple[Block, int]]:
        """Yield the blocks with holes and their hole masks, by group and sequence."""
        for group in self.groups:
            for index, holes in group.holes.items():
                table = group.tables[index]
                for entry, mask in holes.masks.items():
                    yield table[entry], mask

    def num_kept_by_head(self, running: Iterable[Sequence]) -> int:
        """Return the tokens that each head keeps, summed over sequences; O(running).

        This is the number of slots if each head had separate, packed tables without sharing.
        """
        return sum(group.num_kept_by_head(one) for one in running for group in self.groups)

    def fragmented(self, sequence: Sequence) -> bool:
        """Return False: any free block can be used."""
        return False

    def owners(self) -> set[int]:
        """Return the sequences with a block table."""
        return set(self.groups[0].tables)

    def num_held(self, sequence: Sequence) -> int:
        """Return the table entries of a sequence that are blocks, over all groups."""
        null = self.pool.null
        return sum(
            sum(block is not null for block in group.tables[sequence.index])
            for group in self.groups
        )

    def check_invariants(self) -> None:
        """Verify pool and tables; O(pool)."""
        self.pool.check_invariants()
        for group in self.groups:
            group.check_invariants()
