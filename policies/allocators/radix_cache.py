"""A pool of KV tokens around a radix tree (SGLang 0.5.23, ``RadixCache`` and its token pool).

    pool   |  free  |  evictable  |  protected  |  held outside the tree  |
                    +------- radix tree -------+    one lease a request

A request starts with the cached prefix of its prompt and takes free tokens for the rest. When its
computed tokens are published, they go into the tree. Duplicates of tokens that the tree had already
are freed at once. The four parts always add up to the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvsim.policies.allocators.radix_tree import Node, RadixTree
from kvsim.policies.eviction import make_order

if TYPE_CHECKING:
    from kvsim.policies.allocators.radix_tree import Match
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.token_run import TokenRun


@dataclass(slots=True, eq=False)
class Lease:
    """What a live request holds: a locked path to ``node`` and ``num_own`` unpublished tokens.

    ``num_shared`` is the length of the path; those tokens belong to the tree.
    """

    node: Node
    num_shared: int
    num_own: int
    priority: int = 0

    @property
    def num_tokens(self) -> int:
        """Room of the request, in tokens from its first one on."""
        return self.num_shared + self.num_own


class Admission(NamedTuple):
    """Result of a start; ``lease`` is ``None`` if there was no room even after eviction."""

    hit_tokens: int
    needed_tokens: int
    evicted: list[int]
    lease: Lease | None


class RadixCache:
    """Tokens of a pool: free, in the tree, or held by a lease.

    ``num_evicted``: tokens lost from the tree so far. ``num_deduplicated``: duplicate tokens freed
    so far.

    Raises
    ------
    ValueError
        If the policy is unknown, or the pool holds no whole page.
    """

    def __init__(
        self, pool_tokens: int, page_size: int, policy: str, context: PolicyContext | None = None
    ) -> None:
        if not 1 <= page_size <= pool_tokens or pool_tokens % page_size:
            msg = f"pool_tokens is {pool_tokens}; allowed are multiples of page_size {page_size}"
            raise ValueError(msg)
        self.tree = RadixTree(page_size, make_order(policy, context))
        self.pool_tokens = pool_tokens
        self.num_free = pool_tokens
        self.num_evicted = 0
        self.num_deduplicated = 0
        self._leases: set[Lease] = set()

    def rounded(self, num_tokens: int) -> int:
        """Return the number of tokens in the pages that hold ``num_tokens``."""
        return -(-num_tokens // self.tree.page_size) * self.tree.page_size

    def find(self, prompt: TokenRun) -> Match:
        """Return the longest cached prefix; refreshes it.

        At least one token of a prompt is computed, so the lookup leaves out the last one.
        """
        return self.tree.match(prompt.first(len(prompt) - 1))

    def num_available(self, node: Node) -> int:
        """Return the tokens that a request which starts at ``node`` could take; O(depth)."""
        return self.num_free + self.tree.num_evictable - self.tree.num_unlocked(node)

    def start(
        self, prompt: TokenRun, num_tokens: int, priority: int = 0, *, counts: bool = True
    ) -> Admission:
        """Take room for ``num_tokens`` (rounded up to pages) of a request with this prompt.

        The hit is locked first. Then missing tokens are evicted. The hit stays refreshed even if
        there is no room. With ``counts`` the admission is an access of the hit nodes.
        """
        node, hit = self.find(prompt)
        needed = self.rounded(num_tokens) - hit
        self.tree.lock(node)
        evicted = self._evict(needed - self.num_free)
        if needed > self.num_free:
            self.tree.unlock(node)
            return Admission(hit, needed, evicted, None)
        self.num_free -= needed
        if counts:
            self.tree.access(node)
        lease = Lease(node, hit, needed, priority)
        self._leases.add(lease)
        return Admission(hit, needed, evicted, lease)

    def extend(self, lease: Lease, num_tokens: int) -> bool:
        """Make room for ``num_tokens`` in total; return False, evicting nothing, without room."""
        lacking = self.rounded(num_tokens) - lease.num_tokens
        if lacking <= 0:
            return True
        if lacking > self.num_free + self.tree.num_evictable:
            return False
        self._evict(lacking - self.num_free)
        self.num_free -= lacking
        lease.num_own += lacking
        return True

    def publish(self, lease: Lease, computed: TokenRun, *, num_hits: int = 1) -> int:
        """Insert the computed tokens, move the lock to their end; return the duplicates freed."""
        num_duplicate = self._insert(lease, computed, num_hits)
        node, num_tokens = self.tree.match(computed)
        self.tree.unlock(lease.node)
        self.tree.lock(node)
        lease.node, lease.num_shared = node, num_tokens
        return num_duplicate

    def finish(self, lease: Lease, computed: TokenRun) -> int:
        """Insert the computed tokens and free all others; return the duplicates freed."""
        num_duplicate = self._insert(lease, computed, 1)
        self.cancel(lease)
        return num_duplicate

    def cancel(self, lease: Lease) -> None:
        """End a lease; unpublished tokens are lost."""
        self.tree.unlock(lease.node)
        self.num_free += lease.num_own
        self._leases.remove(lease)

    def _evict(self, num_tokens: int) -> list[int]:
        evicted = self.tree.evict(num_tokens)
        num_evicted = sum(evicted)
        self.num_free += num_evicted
        self.num_evicted += num_evicted
        return evicted

    def _insert(self, lease: Lease, computed: TokenRun, num_hits: int) -> int:
        num_there = self.tree.insert(computed, lease.priority, num_hits=num_hits)
        num_pages_tokens = len(computed) - len(computed) % self.tree.page_size
        num_duplicate = num_there - lease.num_shared
        lease.num_own -= num_pages_tokens - lease.num_shared
        assert lease.num_own >= 0, "more tokens are computed than were held"
        lease.num_shared = num_pages_tokens
        self.num_free += num_duplicate
        self.num_deduplicated += num_duplicate
        return num_duplicate

    def check_invariants(self) -> None:
        """Verify the tree, its locks and that the parts add up to the pool; O(nodes + paths)."""
        self.tree.check_invariants()
        self.tree.check_locks(lease.node for lease in self._leases)
        held = sum(lease.num_own for lease in self._leases)
        total = self.num_free + self.tree.num_tokens + held
        assert total == self.pool_tokens, (
            f"the parts add up to {total} tokens, the pool has {self.pool_tokens}"
        )
        assert self.num_free >= 0, "more tokens are held than the pool has"
        for lease in self._leases:
            assert lease.node.run.stop == lease.num_shared, "a lease is longer than its path"
