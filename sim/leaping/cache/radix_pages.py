"""Counts of pages around a radix tree, for the leaper.

    pool   |  blank  |  cached  |  locked in the tree  |  held outside it  |
                     +------ radix tree ------+

The tree is that of ``policies/allocators/radix_cache.py``. The leaper knows only the sum of the
pages that requests hold outside it, until one of them releases them. Pages are taken at once: when
no blank page is left, whole nodes are evicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators.radix_tree import RadixTree
from kvsim.policies.eviction import make_order
from kvsim.policies.token_run import TokenRun
from kvsim.sim.leaping.cache.pieces import Found
from kvsim.sim.leaping.cache.segment_cache import SegmentCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.radix_tree import Node
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.leaping.cache.pieces import Holding, Path


class RadixPages(SegmentCache):
    """See the module docstring; a path's segments are the stretches of its tokens.

    ``rank_of`` returns the priority of a request by its index; a higher value is kept longer.
    """

    def __init__(self, config: SchedulerConfig, rank_of: Callable[[int], int]) -> None:
        super().__init__(config.usable_blocks, ())
        self.tree = RadixTree(config.block_size, make_order(config.eviction.policy))
        self._page_size = config.block_size
        self._rank_of = rank_of
        self._found = self.tree.root
        self._nodes: dict[Holding, Node] = {}
        self._num_locked_tokens = 0  # summed over holdings, so shared ones count several times
        self._stretches: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def take(self, count: int) -> None:
        """Take pages: blank ones first, then those of evicted nodes."""
        if count > self.num_blank:
            evicted = self.tree.evict((count - self.num_blank) * self._page_size)
            num_evicted = sum(evicted) // self._page_size
            self.num_blank += num_evicted
            self.num_cached -= num_evicted
            self.num_evicted += num_evicted
        assert count <= self.num_blank, "more pages taken than were free"
        self.num_blank -= count

    def find(self, path: Path, max_blocks: int) -> Found:
        """Return the longest cached prefix of at most ``max_blocks`` pages; refreshes it."""
        run = self._run(path, max_blocks * self._page_size)
        self._found, num_tokens = self.tree.match(run)
        num_unlocked = self.tree.num_unlocked(self._found) // self._page_size
        return Found(num_tokens // self._page_size, num_unlocked, [])

    def hold(self, holding: Holding, found: Found) -> None:
        """Lock what was just found."""
        assert self._found.run.stop == found.num_blocks * self._page_size, "the hit is stale"
        self.tree.lock(self._found)
        self._nodes[holding] = self._found
        self._num_locked_tokens += self._found.run.stop
        holding.published = found.num_blocks
        self._count()

    def publish_run(self, holding: Holding, num_tokens: int, *, num_hits: int) -> None:
        """Insert the first tokens into the tree; the lock moves to their end."""
        node = self._insert(holding, num_tokens, num_hits)
        top = self._nodes[holding]
        self.tree.lock(node, top)
        self._num_locked_tokens += node.run.stop - top.run.stop
        self._nodes[holding] = node
        self._count()

    def let_go(self, holding: Holding) -> None:
        """Unlock the path of a preempted request: :meth:`release` then publishes nothing."""
        node = self._nodes.pop(holding)
        self.tree.unlock(node)
        self._num_locked_tokens -= node.run.stop
        self._count()

    def release(self, holding: Holding, num_blocks: int, published: int) -> None:
        """Release ``num_blocks`` pages; the first ``published`` stay in the tree."""
        if holding in self._nodes:
            self._insert(holding, published * self._page_size, 1)
            self.let_go(holding)
            del self._stretches[holding.path[-1][0]]
        self.num_blank += num_blocks - holding.published
        holding.published = 0

    def _run(self, path: Path, num_tokens: int) -> TokenRun:
        own = path[-1][0]
        stretches = self._stretches.get(own)
        if stretches is None:
            names, ends = zip(*path, strict=True)
            stretches = names, tuple(end * self._page_size for end in ends)
            self._stretches[own] = stretches
        return TokenRun(*stretches, 0, num_tokens)

    def _insert(self, holding: Holding, num_tokens: int, num_hits: int) -> Node:
        """Insert tokens, free those that the tree had already; return where they end."""
        run = self._run(holding.path, num_tokens)
        rank = self._rank_of(-1 - holding.path[-1][0])
        top = self._nodes[holding]
        node, num_there = self.tree.insert_below(top, run, rank, num_hits=num_hits)
        self.num_blank += num_there // self._page_size - holding.published
        holding.published = num_tokens // self._page_size
        self._count()
        return node

    def _count(self) -> None:
        self.num_cached = self.tree.num_evictable // self._page_size
        self.num_shared = (self._num_locked_tokens - self.tree.num_protected) // self._page_size

    def check_invariants(self, num_blocks: int, num_unkeyed: int) -> None:
        """Verify tree, locks and counts; ``num_unkeyed`` pages are held outside the tree."""
        self.tree.check_invariants()
        self.tree.check_locks(self._nodes.values())
        locked = sum(node.run.stop for node in self._nodes.values())
        assert locked == self._num_locked_tokens, "locked tokens are miscounted"
        assert self.num_cached * self._page_size == self.tree.num_evictable, "cached count is off"
        total = self.num_blank + self.tree.num_tokens // self._page_size + num_unkeyed
        assert total == num_blocks, f"{total} pages accounted for, the pool has {num_blocks}"
