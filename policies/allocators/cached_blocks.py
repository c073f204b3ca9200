"""Cached blocks under an eviction order of one's choice: their facts, and who may go.

    chain of keys     A <- B <- C          resident copies of a key, oldest first:
                           ^               A: #3      B: #4 #9      C: #5
                           +- D            D: #7

A block may go while nobody holds it and either another copy of its key stays or no child of its
key is resident: #5, #7, #4 and #9 above, the last two of which only one. So what is cached of a
prompt is always a leading part of it, whatever the order. Keys without a parent (sliding windows,
which need only the end of a chain) are free of this rule. vLLM's own queue keeps it by itself: a
request gives its blocks up tail first, and who holds a child holds a copy of its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.eviction.base import EvictionOrder


class Use(NamedTuple):
    """Who uses a block; ``counts``: at its first admission, not when it resumes.

    ``priority``: more is kept longer.
    """

    request: int = -1
    priority: int = 0
    counts: bool = True


class CachedBlocks:
    """The blocks of a pool that have a key; ``index`` is the pool's, by key.

    Invariant: the order's candidates are the blocks that may go.
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
        """``block``, held, has just got a key; ``past`` tokens stand before it in its chain.

        Its holder holds a copy of ``parent`` too: any other copy may go as before.
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
        """An admission holds a block."""
        self._order.held(block)
        block.priority = max(block.priority, use.priority)
        block.last_user = max(block.last_user, use.request)
        if use.counts:
            block.num_hits += 1
            self._order.referenced(block)

    def released(self, block: Block) -> None:
        """Nobody holds a block any longer."""
        self._now += 1
        block.last_access = self._now
        if self._may_go(block):
            self._order.released(block)

    def victim(self) -> Block:
        """Choose the next block to go; there must be one that nobody holds.

        Raises
        ------
        ValueError
            Where the order breaks its contract.
        """
        block = self._order.victim()
        if block is None or block.key is None or not self._may_go(block):
            raise ValueError(
                f"eviction order {type(self._order).__qualname__} chose {block}; it must choose a "
                "block that nobody holds and that has no resident child"
            )
        return block

    def evicted(self, block: Block) -> None:
        """``block`` has left the index, and has its key still."""
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
        """Tell the order which copies of a key may go now."""
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
