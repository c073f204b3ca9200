"""Index of cached prefixes as a tree of token runs (SGLang 0.5.23, ``mem_cache/radix_cache.py``).

    root --[system prompt: 160]--+--[turn 1: 96]--[turn 2: 64]      locks  2, 1, 1
                                 +--[other question: 48]                   2, 1

A node is a run of whole pages; siblings differ in their first page. A lookup that ends inside a
node splits it. So every prefix in use ends at the end of a node. Users lock the path from their
node to the root. Only unlocked leaves are evicted, one whole node at a time, in the order of an
:class:`~kvsim.policies.eviction.base.EvictionOrder`. The order does not know the tree.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kvsim.policies.token_run import TokenRun

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from kvsim.policies.eviction.base import EvictionOrder


class Node:
    """One run of tokens below ``parent``; the root has no parent and no tokens."""

    __slots__ = (
        "children",
        "created",
        "last_access",
        "num_hits",
        "num_locks",
        "parent",
        "priority",
        "run",
    )

    def __init__(self, run: TokenRun, parent: Node | None, now: int, priority: int = 0) -> None:
        self.run = run
        self.parent = parent
        self.children: dict[Hashable, Node] = {}
        self.created = now
        self.last_access = now
        self.num_hits = 0
        self.num_locks = 0
        self.priority = priority

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the run."""
        return len(self.run)

    @property
    def past(self) -> int:
        """Number of tokens before the run."""
        return self.run.start

    def __repr__(self) -> str:
        return f"<node {self.run.start}-{self.run.stop} locks={self.num_locks}>"


class Match(NamedTuple):
    """The longest cached prefix: the node where it ends (the root if there is none)."""

    node: Node
    num_tokens: int


class RadixTree:
    """Prefixes in pages of ``page_size`` tokens.

    Invariants: runs are whole pages and never empty. A node has at least as many locks as its
    children together. ``num_evictable`` and ``num_protected`` count the tokens of unlocked and of
    locked nodes. The candidates of the order are the unlocked leaves. Time is a counter of the
    tree.
    """

    def __init__(self, page_size: int, order: EvictionOrder[Node]) -> None:
        self.page_size = page_size
        self.num_evictable = 0
        self.num_protected = 0
        self._order = order
        self._now = 0
        self.root = Node(TokenRun.of(()), None, 0)

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the tree."""
        return self.num_evictable + self.num_protected

    def match(self, run: TokenRun) -> Match:
        """Find the longest prefix of ``run`` in whole pages; refresh its path.

        Splits the node in which the match ends. The lower half is not matched, but it counts as
        used now too, because it was touched before the split. O(stretches of the run).
        """
        self._now += 1
        now = self._now
        node, rest = self.root, self._cut(run)
        while (child := self._child(node, rest)) is not None:
            child.last_access = now
            shared = self._num_shared(child, rest)
            if shared < len(child.run):
                self._consider(child)
                node, rest = self._split(child, shared), rest.after(shared)
                break
            node, rest = child, rest.after(shared)
        self._consider(node)
        return Match(node, rest.start - run.start)

    def insert(self, run: TokenRun, priority: int = 0, *, num_hits: int = 1) -> int:
        """Insert the whole pages of ``run``; return how many leading tokens were there already.

        The tree keeps its copy of those tokens. The caller's tokens are duplicates and should be
        freed. Refreshes the path as :meth:`match` does and counts ``num_hits`` at each of its
        nodes. O(stretches of the run).
        """
        return self.insert_below(self.root, run, priority, num_hits=num_hits).num_tokens

    def insert_below(self, top: Node, run: TokenRun, priority: int, *, num_hits: int) -> Match:
        """Insert as :meth:`insert`, for a run that is known to go through the node ``top``.

        Returns the node where it ends, and how many leading tokens were there already. O(depth of
        ``top`` + stretches below it).
        """
        self._now += 1
        now = self._now
        for step in self._path_up(top):
            step.last_access = now
            step.num_hits += num_hits
            step.priority = max(step.priority, priority)
        node, rest = top, self._cut(run).after(top.run.stop)
        while (child := self._child(node, rest)) is not None:
            child.last_access = now
            shared = self._num_shared(child, rest)
            node, rest = child, rest.after(shared)
            if shared < len(child.run):
                self._consider(child)
                node = self._split(child, shared)
            node.num_hits += num_hits
            node.priority = max(node.priority, priority)
        num_there = rest.start - run.start
        if len(rest):
            node = self._append(node, rest, priority, num_hits)
        self._consider(node)
        return Match(node, num_there)

    def num_unlocked(self, node: Node) -> int:
        """Return the tokens from the root to a node's end that a lock would protect; O(depth)."""
        return sum(len(step.run) for step in self._path_up(node) if not step.num_locks)

    def access(self, node: Node) -> None:
        """Count an admission's use of a node and of all nodes above it; O(depth)."""
        for step in self._path_up(node):
            self._order.referenced(step)

    def lock(self, node: Node, top: Node | None = None) -> None:
        """Protect a node and all nodes above it; O(depth).

        ``top``: a node above it that the same user has locked already; the walk stops there.
        """
        for step in self._path_up(node):
            if step is top:
                break
            if not step.num_locks:
                self.num_evictable -= len(step.run)
                self.num_protected += len(step.run)
                self._order.held(step)
            step.num_locks += 1

    def unlock(self, node: Node) -> None:
        """Undo one :meth:`lock`; O(depth)."""
        for step in self._path_up(node):
            assert step.num_locks > 0, f"{step} is unlocked twice"
            step.num_locks -= 1
            if not step.num_locks:
                self.num_evictable += len(step.run)
                self.num_protected -= len(step.run)
                self._consider(step)

    def evict(self, num_tokens: int) -> list[int]:
        """Evict unlocked leaves until ``num_tokens`` tokens are gone, or no leaf is left.

        Returns the sizes of the evicted nodes, in order. Whole nodes are evicted, so more tokens
        may go than needed. A parent without children and locks is a candidate at once.
        """
        sizes: list[int] = []
        dropped = 0
        while dropped < num_tokens:
            node = self._order.victim()
            if node is None:
                break
            parent = node.parent
            assert parent is not None, "the root is no candidate"
            del parent.children[node.run.head(self.page_size)]
            self.num_evictable -= len(node.run)
            self._order.evicted(node)
            self._consider(parent)
            sizes.append(len(node.run))
            dropped += len(node.run)
        return sizes

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes but the root, parents first."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def check_invariants(self) -> None:
        """Verify nodes, counters and candidates; O(nodes)."""
        self._order.check_invariants()
        sizes = {True: 0, False: 0}
        num_candidates = 0
        for node in self.nodes():
            parent = node.parent
            assert parent is not None
            head = node.run.head(self.page_size)
            assert parent.children.get(head) is node, f"{node} is not among its parent's children"
            assert node.run.start == parent.run.stop, f"{node} does not begin where {parent} ends"
            assert len(node.run), f"{node} is empty"
            assert len(node.run) % self.page_size == 0, f"{node} has a partial page"
            locks = sum(child.num_locks for child in node.children.values())
            assert node.num_locks >= locks, f"{node} is locked less often than its children"
            sizes[node.num_locks > 0] += len(node.run)
            is_candidate = not node.num_locks and not node.children
            assert (node in self._order) == is_candidate, f"{node} is wrongly (no) candidate"
            num_candidates += is_candidate
        assert sizes[False] == self.num_evictable, "evictable count is off"
        assert sizes[True] == self.num_protected, "protected count is off"
        assert num_candidates == len(self._order), "a node that is gone is a candidate"

    def check_locks(self, users: Iterable[Node]) -> None:
        """Verify that ``users`` hold all locks, one each; O(nodes + paths)."""
        locks = Counter(step for node in users for step in self._path_up(node))
        for node in self.nodes():
            assert node.num_locks == locks.pop(node, 0), f"{node} has locks of no user"
        assert not locks, "a user holds a node that is gone"

    def _cut(self, run: TokenRun) -> TokenRun:
        return run.first(len(run) - len(run) % self.page_size)

    def _child(self, node: Node, rest: TokenRun) -> Node | None:
        return node.children.get(rest.head(self.page_size)) if len(rest) else None

    def _num_shared(self, node: Node, rest: TokenRun) -> int:
        shared = node.run.num_shared(rest)
        return shared - shared % self.page_size

    def _split(self, node: Node, num_tokens: int) -> Node:
        """Put the first tokens of a node into a new one above it; ``node`` keeps the rest.

        So users that hold ``node`` still hold all of it. The upper half is new (``created``), but
        has the locks, hits and priority of the whole.
        """
        parent = node.parent
        assert parent is not None, "the root has nothing to split"
        self._now += 1
        upper = Node(node.run.first(num_tokens), parent, self._now, node.priority)
        upper.num_locks, upper.num_hits = node.num_locks, node.num_hits
        parent.children[upper.run.head(self.page_size)] = upper
        node.run, node.parent = node.run.after(num_tokens), upper
        upper.children[node.run.head(self.page_size)] = node
        self._order.split(node, upper)
        self._consider(node)
        return upper

    def _append(self, parent: Node, run: TokenRun, priority: int, num_hits: int) -> Node:
        self._now += 1
        node = Node(run, parent, self._now, priority)
        node.num_hits = num_hits
        parent.children[run.head(self.page_size)] = node
        self.num_evictable += len(run)
        self._order.inserted(node)
        self._consider(parent)
        return node

    def _path_up(self, node: Node) -> Iterator[Node]:
        step = node
        while step.parent is not None:
            yield step
            step = step.parent

    def _consider(self, node: Node) -> None:
        """Report to the order whether a node is a candidate; its facts may have changed."""
        if node.parent is None:
            return
        if node.num_locks or node.children:
            self._order.held(node)
        else:
            self._order.released(node)
