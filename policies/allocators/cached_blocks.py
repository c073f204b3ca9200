"""Cached blocks under a chosen eviction order: their facts, and which of them may be evicted.

    chain of keys     A <- B <- C          resident copies of a key, oldest first:
                           ^               A: #3      B: #4 #9      C: #5
                           +- D            D: #7

An unreferenced block may be evicted under one of two conditions: another copy of its key stays, or
no child of its key is resident. Above these are #5, #7, and one of #4 and #9. So the cached part of
a prompt is always a leading part, under any order. Keys without a parent do not have this rule
(sliding windows need only the end of a chain). vLLM's free queue follows the rule by itself. A
request releases its last blocks first, and a request that holds a child also holds a copy of its
parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.eviction.base import EvictionOrder


class Use(NamedTuple):
    """The user of a block; ``counts``: true at its first admission, false when it resumes.

    ``priority``: blocks with a higher value are kept longer.
    """

    request: int = -1
    priority: int = 0
    counts: bool = True


class CachedBlocks:
    """The blocks of a pool that have a key; ``index`` is the pool's index by key.

    Invariant: the candidates of the order are the blocks that may be evicted.
    """

    def __init__(
        self, index: Mapping[Hashable, Mapping[int, Block]], order: EvictionOrder[Block]
    ) -> None:
        self._index = index
        self._order = order
        self._parent: dict[Hashable, Hashable] = {}
        self._num_children: dict[Hashable, int] = {}
        self._now = 0

    def inserted(self, block: Block, parent: Hashable | None, past: int, use: Use) -> None:
        """Note that ``block``, in use, just got a key; ``past`` tokens of its chain precede it.

        The user of the block also holds a copy of ``parent``. Any other copy of it may be evicted
        as before.
        """
        self._now += 1
        block.created = block.last_access = self._now
        block.num_hits, block.past = 1, past
        block.priority, block.last_user = use.priority, use.request
        self._order.inserted(block)
        key = block.key
        copies = self._index[key]
        if len(copies) > 1:
            self._consider(key)
        elif parent is not None:
            self._parent[key] = parent
            self._num_children[parent] = self._num_children.get(parent, 0) + 1

    def used(self, block: Block, use: Use) -> None:
        """Note that an admission uses a block."""
        self._order.held(block)
        block.priority = max(block.priority, use.priority)
        block.last_user = max(block.last_user, use.request)
        if use.counts:
            block.num_hits += 1
            self._order.referenced(block)

    def released(self, block: Block) -> None:
        """Note that a block is no longer in use."""
        self._now += 1
        block.last_access = self._now
        if self._may_go(block):
            self._order.released(block)

    def victim(self) -> Block:
        """Choose the next block to evict; at least one block must be unreferenced.

        Raises
        ------
        ValueError
            If the order breaks its contract.
        """
        block = self._order.victim()
        if block is None or block.key is None or not self._may_go(block):
            raise ValueError(
                f"eviction order {type(self._order).__qualname__} chose {block}; it must choose a "
                "block that no sequence uses and that has no resident child"
            )
        return block

    def evicted(self, block: Block) -> None:
        """Note that ``block`` has left the index; it still has its key."""
        self._order.evicted(block)
        key = block.key
        if key in self._index:
            self._consider(key)
            return
        parent = self._parent.pop(key, None)
        if parent is None:
            return
        self._num_children[parent] -= 1
        if not self._num_children[parent]:
            del self._num_children[parent]
            self._consider(parent)

    def _may_go(self, block: Block) -> bool:
        if block.ref_count:
            return False
        return block.key not in self._num_children or len(self._index[block.key]) > 1

    def _consider(self, key: Hashable) -> None:
        """Report to the order which copies of a key may be evicted now."""
        for block in self._index[key].values():
            if self._may_go(block):
                self._order.released(block)
            else:
                self._order.held(block)

    def check_invariants(self) -> None:
        """Verify chains and candidates against the index; O(blocks)."""
        self._order.check_invariants()
        children: dict[Hashable, int] = {}
        for key, parent in self._parent.items():
            assert key in self._index, f"{key} has a parent but no block"
            assert parent in self._index, f"{key} is resident, its parent is not"
            children[parent] = children.get(parent, 0) + 1
        assert children == self._num_children, "children are miscounted"
        blocks = [block for copies in self._index.values() for block in copies.values()]
        for block in blocks:
            may_go = not block.ref_count and (
                block.key not in children or len(self._index[block.key]) > 1
            )
            assert (block in self._order) == may_go, f"{block} is wrongly (no) candidate"
        num_candidates = sum(block in self._order for block in blocks)
        assert num_candidates == len(self._order), "a block that is gone is a candidate"
