"""The radix tree against a dict of token tuples, under random use."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvsim.policies.allocators.radix_tree import Node, RadixTree
from kvsim.policies.allocators.token_run import TokenRun
from kvsim.policies.eviction import EVICTION_KEYS, make_order

Tokens = tuple[int, ...]


@dataclass
class Facts:
    """What the twin knows about a node."""

    created: int
    last_access: int
    num_hits: int
    priority: int = 0
    num_locks: int = 0
    num_tokens: int = 0
    past: int = 0


class NaiveTree:
    """Nodes by all tokens from the root to their end; nothing else is kept."""

    def __init__(self, page_size: int, policy: str) -> None:
        self.page_size = page_size
        self.key = EVICTION_KEYS[policy]
        self.ends: dict[Tokens, Facts] = {}
        self.now = 0

    def tick(self) -> int:
        self.now += 1
        return self.now

    def above(self, end: Tokens) -> Tokens:
        """End of the parent."""
        return max((e for e in self.ends if e != end and end[: len(e)] == e), key=len, default=())

    def size(self, end: Tokens) -> int:
        return len(end) - len(self.above(end))

    def touch(self, tokens: Tokens) -> Tokens:
        """Refresh the path of a lookup and split where it ends; return what was found."""
        now = self.tick()
        found = 0
        for end in self.ends:
            shorter = min(len(end), len(tokens))
            same = max(n for n in range(shorter + 1) if end[:n] == tokens[:n])
            found = max(found, same - same % self.page_size)
        hit = tokens[:found]
        if hit and hit not in self.ends:
            whole = min((e for e in self.ends if e[:found] == hit), key=len)
            self.ends[whole].last_access = now
            facts = self.ends[whole]
            new = self.tick()
            self.ends[hit] = Facts(new, new, facts.num_hits, facts.priority, facts.num_locks)
        for end, facts in self.ends.items():
            if end == tokens[: len(end)] and facts.last_access < now:
                facts.last_access = now
        return hit

    def insert(self, tokens: Tokens, priority: int) -> int:
        tokens = tokens[: len(tokens) - len(tokens) % self.page_size]
        hit = self.touch(tokens)
        for end, facts in self.ends.items():
            if end == hit[: len(end)]:
                facts.num_hits += 1
                facts.priority = max(facts.priority, priority)
        if tokens != hit:
            new = self.tick()
            self.ends[tokens] = Facts(new, new, 1, priority)
        return len(hit)

    def lock(self, end: Tokens, change: int) -> None:
        for other, facts in self.ends.items():
            if other == end[: len(other)]:
                facts.num_locks += change

    def evict(self, num_tokens: int) -> list[int]:
        sizes: list[int] = []
        while sum(sizes) < num_tokens:
            leaves = [
                end
                for end, facts in self.ends.items()
                if not facts.num_locks
                and not any(o != end and o[: len(end)] == end for o in self.ends)
            ]
            if not leaves:
                break
            for end in leaves:
                self.ends[end].past = len(self.above(end))
            victim = min(leaves, key=lambda end: self.key(self.ends[end]))
            sizes.append(self.size(victim))
            del self.ends[victim]
        return sizes


KEYS = st.lists(st.integers(0, 1), max_size=9).map(tuple)


class TreeAgainstDict(RuleBasedStateMachine):
    """The same operations on both; nodes, facts, sizes and victims agree after each."""

    @initialize(
        page_size=st.sampled_from([1, 2, 3]),
        id_tokens=st.sampled_from([1, 2, 3]),
        policy=st.sampled_from(sorted(EVICTION_KEYS)),
    )
    def start(self, page_size: int, id_tokens: int, policy: str) -> None:
        self.id_tokens = id_tokens
        self.tree = RadixTree(page_size, make_order(policy))
        self.twin = NaiveTree(page_size, policy)
        self.users: list[tuple[Node, Tokens]] = []

    def spell(self, run: TokenRun) -> Tokens:
        size = self.id_tokens
        return tuple(run.ids[p // size] * size + p % size for p in range(run.stop))

    def key(self, ids: Tokens, less: int) -> TokenRun:
        whole = TokenRun.of(ids, self.id_tokens)
        return whole.first(max(len(whole) - less, 0))

    @rule(ids=KEYS, less=st.integers(0, 2))
    def match(self, ids: Tokens, less: int) -> None:
        key = self.key(ids, less)
        tokens = self.spell(key)
        cut = tokens[: len(tokens) - len(tokens) % self.twin.page_size]
        node, num_tokens = self.tree.match(key)
        assert self.twin.touch(cut) == tokens[:num_tokens]
        assert self.spell(node.run) == tokens[:num_tokens]

    @rule(ids=KEYS, less=st.integers(0, 2), priority=st.integers(0, 2))
    def insert(self, ids: Tokens, less: int, priority: int) -> None:
        key = self.key(ids, less)
        assert self.tree.insert(key, priority) == self.twin.insert(self.spell(key), priority)

    @precondition(lambda self: self.twin.ends)
    @rule(data=st.data())
    def lock(self, data: st.DataObject) -> None:
        nodes = {self.spell(node.run): node for node in self.tree.nodes()}
        end = data.draw(st.sampled_from(sorted(nodes)))
        self.tree.lock(nodes[end])
        self.twin.lock(end, 1)
        self.users.append((nodes[end], end))

    @precondition(lambda self: self.users)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        node, end = self.users.pop(data.draw(st.integers(0, len(self.users) - 1)))
        self.tree.unlock(node)
        self.twin.lock(end, -1)

    @rule(num_tokens=st.integers(0, 12))
    def evict(self, num_tokens: int) -> None:
        assert self.tree.evict(num_tokens) == self.twin.evict(num_tokens)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "tree"):
            return
        self.tree.check_invariants()
        ours = {
            self.spell(node.run): Facts(
                node.created, node.last_access, node.num_hits, node.priority, node.num_locks
            )
            for node in self.tree.nodes()
        }
        assert ours == self.twin.ends
        locked = [end for end, facts in self.twin.ends.items() if facts.num_locks]
        assert self.tree.num_protected == sum(map(self.twin.size, locked))
        assert self.tree.num_tokens == sum(map(self.twin.size, self.twin.ends))


def test_tree_against_a_dict() -> None:
    run_state_machine_as_test(TreeAgainstDict, settings=settings(stateful_step_count=40))
