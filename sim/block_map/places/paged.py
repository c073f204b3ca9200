"""Blocks of a paged pool, each at its number times the block size."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from kvsim.sim.block_map.pieces import Pieces, residency_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kvsim.policies.allocators import PagedAllocator
    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.batching import SchedulerState
    from kvsim.policies.sequence import Sequence


class PagedPlaces:
    """Reads a paged allocator; block 0 is the null block, which holds nothing."""

    def __init__(self, allocator: PagedAllocator, block_size: int) -> None:
        self._allocator = allocator
        self._size = block_size
        self._num_evicted = 0

    def pieces(self, state: SchedulerState) -> Pieces:
        """Each block once, by what it holds; O(blocks)."""
        pieces, size = Pieces(), self._size
        pieces.add("unusable", 0, size)
        holes = self._holes()
        duplicates = self._duplicates()
        drawn: set[int] = set()
        for owners, filled in ((state.running, "token"), (state.ended, "padding")):
            for sequence in owners:
                for group in self._allocator.groups:
                    for entry, block in enumerate(group.tables[sequence.index]):
                        if block.ref_count and block.id not in drawn:
                            drawn.add(block.id)
                            held_as = "duplicate" if block.id in duplicates else filled
                            mask = holes.get(block.id, 0)
                            self._draw(pieces, block, sequence, entry, held_as, mask)
        for copies in self._allocator.pool.index.values():
            for block in copies.values():
                if not block.ref_count:
                    pieces.add("cached", block.id * size, size)
        return pieces

    def _draw(
        self,
        pieces: Pieces,
        block: Block,
        sequence: Sequence,
        entry: int,
        held_as: str,
        mask: int,
    ) -> None:
        """One owned block: tokens, dropped ones as padding, and its free end."""
        size, place = self._size, block.id * self._size
        filled = min(max(sequence.num_computed_tokens - entry * size, 0), size)
        owner, num_owners = sequence.index, block.ref_count
        if not mask:
            pieces.add(held_as, place, filled, owner, num_owners)
        else:
            for slot in range(filled):
                what = "padding" if mask >> slot & 1 else held_as
                pieces.add(what, place + slot, 1, owner, num_owners)
        pieces.add_empty(
            place + filled, size - filled, residency_of(sequence), entry * size + filled
        )

    def _duplicates(self) -> set[int]:
        """Owned blocks whose key an owned block before them has already."""
        found: set[int] = set()
        for copies in self._allocator.pool.index.values():
            if len(copies) > 1:
                found.update([block.id for block in copies.values() if block.ref_count][1:])
        return found

    def _holes(self) -> dict[int, int]:
        """Slots, as a mask, whose token nobody keeps who holds the block or a copy of it.

        Where there are copies, the first owned one bears the holes.
        """
        masks: dict[Hashable, list[int]] = {}
        blocks: dict[Hashable, list[Block]] = {}
        for group in self._allocator.groups:
            for index, holes in group.holes.items():
                for entry, mask in holes.masks.items():
                    block = group.tables[index][entry]
                    name: Hashable = block.id if block.key is None else (block.key,)
                    masks.setdefault(name, []).append(mask)
                    blocks[name] = self._copies(block)
        return {
            blocks[name][0].id: reduce(and_, found)
            for name, found in masks.items()
            if len(found) == sum(block.ref_count for block in blocks[name])
        }

    def _copies(self, block: Block) -> list[Block]:
        """Owned blocks of one content, oldest first."""
        if block.key is None:
            return [block]
        return [copy for copy in self._allocator.pool.index[block.key].values() if copy.ref_count]

    def take_evicted(self) -> list[tuple[int, int]]:
        """Places and slots that lost cached content since the last call."""
        ids = self._allocator.pool.evicted_ids[self._num_evicted :]
        self._num_evicted += len(ids)
        return [(number * self._size, self._size) for number in sorted(set(ids))]
