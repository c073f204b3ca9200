"""The radix tree, and the allocator around it, against a dict of token tuples in random use."""

from __future__ import annotations

from dataclasses import dataclass, field

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

from kvsim.policies.allocators.radix import RadixAllocator
from kvsim.policies.allocators.radix_tree import Node, RadixTree
from kvsim.policies.context import PolicyContext
from kvsim.policies.eviction import EVICTION_KEYS, make_order
from kvsim.policies.sequence import Sequence
from kvsim.policies.token_run import TokenRun
from tests.engine_config import engine_config

Tokens = tuple[int, ...]


@dataclass
class Facts:
    """What the twin knows about a node."""

    created: int
    last_access: int
    num_hits: int
    priority: int = 0
    num_locks: int = 0
    num_tokens: int = field(default=0, compare=False)
    past: int = field(default=0, compare=False)


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
        return tuple(run.names[p // size] * size + p % size for p in range(run.stop))

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

    @rule(ids=KEYS, less=st.integers(0, 2), priority=st.integers(0, 2), data=st.data())
    def insert_below(self, ids: Tokens, less: int, priority: int, data: st.DataObject) -> None:
        """From a node on its way on, as from the root."""
        key = self.key(ids, less)
        tokens = self.spell(key)
        cut = tokens[: len(tokens) - len(tokens) % self.twin.page_size]
        ends = {self.spell(node.run): node for node in self.tree.nodes()} | {(): self.tree.root}
        top = data.draw(st.sampled_from(sorted(end for end in ends if cut[: len(end)] == end)))
        node, num_there = self.tree.insert_below(ends[top], key, priority, num_hits=1)
        assert num_there == self.twin.insert(tokens, priority)
        assert self.spell(node.run) == cut

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


class NaiveAllocator:
    """Requests around a :class:`NaiveTree`: the end each one locks, and its tokens outside."""

    def __init__(self, page_size: int, num_pages: int, policy: str) -> None:
        self.tree = NaiveTree(page_size, policy)
        self.num_tokens = page_size * num_pages
        self.num_evicted = 0
        self.locked: dict[int, Tokens] = {}
        self.own: dict[int, int] = {}

    def cut(self, tokens: Tokens) -> Tokens:
        return tokens[: len(tokens) - len(tokens) % self.tree.page_size]

    def num_free(self) -> int:
        return self.num_tokens - sum(map(self.tree.size, self.tree.ends)) - sum(self.own.values())

    def num_unlocked(self) -> int:
        return sum(
            self.tree.size(end) for end, facts in self.tree.ends.items() if not facts.num_locks
        )

    def room(self, index: int, num_tokens: int) -> bool:
        """Room for so many tokens of a request, if there is; otherwise nothing changes."""
        size = self.tree.page_size
        lacking = -(-num_tokens // size) * size - len(self.locked[index]) - self.own[index]
        if lacking > self.num_free() + self.num_unlocked():
            return False
        if lacking > self.num_free():
            self.num_evicted += sum(self.tree.evict(lacking - self.num_free()))
        self.own[index] += max(lacking, 0)
        return True

    def enter(self, index: int, known: Tokens, new_tokens: int) -> int | None:
        """The hit; ``None`` where there is no room."""
        hit = self.tree.touch(self.cut(known[:-1]))
        self.tree.lock(hit, 1)
        self.locked[index], self.own[index] = hit, 0
        if self.room(index, len(hit) + new_tokens):
            return len(hit)
        self.leave(index)
        return None

    def publish(self, index: int, tokens: Tokens, priority: int, *, counts: bool = True) -> None:
        """Own tokens become the tree's; those that it had already are forgotten, so given back."""
        hits = {end: facts.num_hits for end, facts in self.tree.ends.items()}
        self.tree.insert(tokens, priority)
        if not counts:
            for end, facts in self.tree.ends.items():
                whole = min((e for e in hits if e[: len(end)] == end), key=len, default=None)
                facts.num_hits = 0 if whole is None else hits[whole]
        end = self.cut(tokens)
        self.own[index] -= len(end) - len(self.locked[index])
        self.tree.touch(end)
        self.tree.lock(self.locked[index], -1)
        self.tree.lock(end, 1)
        self.locked[index] = end

    def leave(self, index: int) -> None:
        self.tree.lock(self.locked.pop(index), -1)
        del self.own[index]


STRETCHES = st.lists(st.integers(0, 1), max_size=5).map(tuple)


class AllocatorAgainstDict(RuleBasedStateMachine):
    """Requests enter, grow, run chunks, end and are preempted in any order, on both."""

    @initialize(
        page_size=st.sampled_from([1, 2, 3]),
        num_pages=st.integers(4, 20),
        policy=st.sampled_from(sorted(EVICTION_KEYS)),
    )
    def start(self, page_size: int, num_pages: int, policy: str) -> None:
        config = engine_config(
            allocator__prefix="radix",
            block_size=page_size,
            num_gpu_blocks=num_pages,
            eviction__policy=policy,
        )
        self.allocator = RadixAllocator(PolicyContext(config))
        self.twin = NaiveAllocator(page_size, num_pages, policy)
        self.running: list[Sequence] = []
        self.prefill: dict[int, int] = {}
        self.num_requests = 0

    def tokens(self, sequence: Sequence, stop: int) -> Tokens:
        """Tokens as numbers: which page of which content, and the place in there."""
        size = self.twin.tree.page_size
        sequence.num_tokens += size  # so that the last, partial page has a name
        names = [hash(sequence.block_key(place // size, size)) for place in range(stop)]
        sequence.num_tokens -= size
        return tuple(hash((name, place)) for place, name in enumerate(names))

    @rule(
        ids=STRETCHES,
        pages=st.integers(1, 3),
        less=st.integers(0, 3),
        priority=st.integers(0, 2),
        data=st.data(),
    )
    def enter(self, ids: Tokens, pages: int, less: int, priority: int, data: st.DataObject) -> None:
        length = pages * self.twin.tree.page_size
        keys = [
            (-int("1" + "".join(map(str, ids[:end])), 2), end * length)
            for end in range(1, len(ids) + 1)
        ]
        index, self.num_requests = self.num_requests, self.num_requests + 1
        prompt_tokens = max(len(ids) * length + 1 - less, 1)
        sequence = Sequence(index, f"r{index}", 0, prompt_tokens, 50, priority, keys)
        self.admit(sequence, data)

    def admit(self, sequence: Sequence, data: st.DataObject) -> None:
        hit = self.allocator.find_hit(sequence)
        new_tokens = data.draw(st.integers(1, sequence.num_tokens - hit.tokens))
        refusal = self.allocator.refusal(sequence, hit, new_tokens, idle=True)
        known = self.tokens(sequence, sequence.num_tokens)
        if refusal == "admission rule":  # the whole prompt would not fit; it was looked up
            self.twin.tree.touch(self.twin.cut(known[:-1]))
            return
        assert self.twin.enter(sequence.index, known, new_tokens) == (
            None if refusal else hit.tokens
        )
        if refusal is None:
            self.allocator.admit(sequence, hit, new_tokens)
            sequence.num_computed_tokens = hit.tokens + new_tokens
            self.prefill[sequence.index] = sequence.num_tokens
            self.running.append(sequence)

    def pick(self, data: st.DataObject) -> Sequence:
        return data.draw(st.sampled_from(self.running))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        sequence = self.pick(data)
        if sequence.num_tokens == sequence.num_computed_tokens:
            return
        new_tokens = data.draw(st.integers(1, sequence.num_tokens - sequence.num_computed_tokens))
        room = self.twin.room(sequence.index, sequence.num_computed_tokens + new_tokens)
        assert self.allocator.grow(sequence, new_tokens) == room
        sequence.num_computed_tokens += new_tokens * room

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def run_chunk(self, data: st.DataObject) -> None:
        """What was scheduled has run, and the last chunk samples a token."""
        sequence = self.pick(data)
        computed, prefill = sequence.num_computed_tokens, self.prefill[sequence.index]
        before = self.allocator.num_computed(sequence)
        self.allocator.set_keys(sequence, computed)
        if before < computed <= prefill:
            tokens = self.tokens(sequence, computed)
            self.twin.publish(
                sequence.index, tokens, -sequence.priority, counts=computed == prefill
            )
        sequence.num_tokens += computed == sequence.num_tokens

    @precondition(lambda self: self.running)
    @rule(data=st.data(), ends=st.booleans())
    def leave(self, data: st.DataObject, ends: bool) -> None:
        """It ends, or is preempted and may come back."""
        sequence = self.pick(data)
        self.running.remove(sequence)
        if ends:
            tokens = self.tokens(sequence, self.allocator.num_computed(sequence))
            self.twin.publish(sequence.index, tokens, -sequence.priority)
            self.allocator.finish(sequence)
        else:
            self.allocator.release(sequence)
        self.twin.leave(sequence.index)
        if not ends and data.draw(st.booleans()):
            sequence.num_computed_tokens = 0
            self.admit(sequence, data)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "allocator"):
            return
        allocator, twin = self.allocator, self.twin
        allocator.check_invariants()
        assert allocator.owners() == set(twin.own) == {s.index for s in self.running}
        blank, cached, empty, duplicate, padding, shared = allocator.usage(self.running)
        assert (blank, cached) == (twin.num_free(), twin.num_unlocked())
        assert (duplicate, padding) == (0, 0)
        assert empty == sum(allocator.num_empty(s, s.num_computed_tokens) for s in self.running)
        assert allocator.num_evicted * twin.tree.page_size == twin.num_evicted
        held_by_all = sum(map(len, twin.locked.values())) + sum(twin.own.values())
        assert shared == held_by_all - (twin.num_tokens - blank - cached)
        for sequence in self.running:
            held = len(twin.locked[sequence.index]) + twin.own[sequence.index]
            assert allocator.num_held(sequence) * twin.tree.page_size == held


def test_allocator_against_a_dict() -> None:
    run_state_machine_as_test(AllocatorAgainstDict, settings=settings(stateful_step_count=40))
