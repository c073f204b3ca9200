"""One suite for all eviction orders: a pool under each of them beside a cache of plain lists."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
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

from kvsim.policies.allocators.block_pool import Block, BlockPool
from kvsim.policies.allocators.cached_blocks import Use
from kvsim.policies.allocators.radix_cache import Lease, RadixCache
from kvsim.policies.allocators.radix_tree import Node, RadixTree
from kvsim.policies.context import PolicyContext
from kvsim.policies.eviction import (
    EVICTION,
    EvictionOrder,
    KeyedOrder,
    make_order,
    needs_names,
    uses_oracle,
)
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.token_run import TokenRun

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import ModuleType

    from hypothesis.strategies import DataObject


def _naive() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "naive_orders", Path(__file__).with_name("naive_orders.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


naive: Any = _naive()

Key = tuple[int, ...]
NAMES = list(EVICTION.builtins)
ON_TREES = [name for name in NAMES if not needs_names(name)]
BLOCK_SIZE = 4


class Cost:
    """Base, tokens, and attention that grows with what came before."""

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        return 1000 + 7 * num_tokens + num_tokens * past

    def decode_ps(self, num_tokens: int, context: int) -> int:
        raise NotImplementedError


class Future:
    """The chains of a trace; keys are ``(KV group, chain)``."""

    def __init__(self, trace: list[Key]) -> None:
        self._twin = naive.NaiveFurthest(trace)

    def next_use(self, key: Hashable, after: int) -> int | None:
        assert isinstance(key, tuple)
        following: int | None = self._twin.next_use(key[1], after)
        return following


def make_context(trace: list[Key] | None = None, seed: int = 0) -> PolicyContext:
    return PolicyContext(SchedulerConfig(), cost=Cost(), seed=seed, future=Future(trace or []))


def twin_of(name: str, trace: list[Key]) -> Any:
    """The order written plainly; ``None`` where any candidate will do."""
    if name in naive.KEYS:
        return naive.NaiveKey(naive.KEYS[name])
    if name == "gdsf":
        return naive.NaiveGdsf(Cost().prefill_ps, BLOCK_SIZE)
    if name == "furthest-next-use":
        return naive.NaiveFurthest(trace)
    return {"sieve": naive.NaiveSieve, "s3-fifo": naive.NaiveS3Fifo}[name]()


class Following(naive.Naive):  # type: ignore[misc]
    """Stands in for an order that draws: evicts what the pool evicted, if it may go."""

    def __init__(self) -> None:
        self.chosen: list[int] = []

    def victim(self, candidates: list[Any]) -> Any:
        number = self.chosen.pop(0)
        found = [block for block in candidates if block.number == number]
        assert found, f"block {number} was evicted, but somebody needs it"
        return found[0]


# one draw a chain, every length as likely: drawing its parts took half of the time
CHAINS = st.sampled_from(
    [
        chain
        for length in range(1, 6)
        for chain in product((0, 1), repeat=length)
        for _ in range(2 ** (5 - length))
    ]
)


class PoolUnderOrder(RuleBasedStateMachine):
    """Requests enter with their hits, grow, leave tail first and come back; victims must agree."""

    name: ClassVar[str]

    @initialize(
        trace=st.lists(CHAINS, min_size=30, max_size=30),
        num_blocks=st.integers(3, 12),
        capacity=st.sampled_from([None, None, 0, 1, 3]),
    )
    def start(self, trace: list[Key], num_blocks: int, capacity: int | None) -> None:
        name = self.name
        self.trace, self.draws = trace, name == "random"
        own = name == "free queue"
        order: EvictionOrder[Block] | None = None
        if not own:
            order = make_order(name, make_context(trace))
        self.pool = BlockPool(
            num_blocks + 1, block_size=BLOCK_SIZE, order=order, capacity=None if own else capacity
        )
        self.capacity = num_blocks if own or capacity is None else capacity
        self.following = Following()
        twin = twin_of("lru" if own else name, trace) if not self.draws else self.following
        self.twin = naive.NaiveCache(twin)
        self.num_blank = num_blocks
        self.now = self.num_entered = 0
        self.running: dict[int, list[Block]] = {}
        self.left: list[int] = []

    # ---- what the twin does beside the pool --------------------------------------------------

    def take(self, count: int) -> list[Block]:
        before = len(self.pool.evicted_ids)
        taken = self.pool.take(count)
        evicted = self.pool.evicted_ids[before:]
        assert len(taken) == count
        assert len(evicted) == max(count - self.num_blank, 0), "blank blocks come first"
        self.num_blank -= count - len(evicted)
        self.evict(evicted)
        return taken

    def evict(self, evicted: list[int]) -> None:
        self.following.chosen = list(evicted)
        assert [self.twin.evict().number for _ in evicted] == evicted

    def found(self, chain: Key) -> list[Any]:
        hit: list[Any] = []
        for length in range(1, len(chain)):
            copies = [block for block in self.twin.blocks if block.key == chain[:length]]
            block = self.pool.lookup((0, chain[:length]))
            assert (block.id if block else None) == (copies[0].number if copies else None)
            if not copies:
                break
            hit.append(copies[0])
        return hit

    def enter(self, index: int, *, counts: bool) -> None:
        chain, use = self.trace[index], Use(index, index % 3, counts)
        hit = self.found(chain)
        free_hits = sum(not block.refs for block in hit)
        if len(chain) - len(hit) + free_hits > self.pool.num_free:
            return
        held = []
        for block in hit:
            there = self.pool.lookup((0, block.key))
            assert there is not None
            self.pool.touch(there, use)
            held.append(there)
            block.refs += 1
            block.priority, block.user = max(block.priority, index % 3), max(block.user, index)
            if counts:
                block.hits += 1
                self.twin.order.hit(block)
        self.running[index] = held
        held += self.take(len(chain) - len(hit))
        for position in range(len(hit), len(chain)):
            key = chain[: position + 1]
            self.pool.set_key(
                held[position],
                (0, key),
                parent=(0, key[:-1]) if position else None,
                past=position * BLOCK_SIZE,
                use=use,
            )
            self.now += 1
            resident = naive.Resident(held[position].id, key, self.now, self.now, index, index % 3)
            self.twin.blocks.append(resident)
            self.twin.order.inserted(resident)

    # ---- rules -------------------------------------------------------------------------------

    @precondition(lambda self: self.num_entered < len(self.trace))
    @rule()
    def arrive(self) -> None:
        self.enter(self.num_entered, counts=True)
        self.num_entered += 1

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def resume(self, data: DataObject) -> None:
        index = data.draw(st.sampled_from(self.left))
        self.left.remove(index)
        self.enter(index, counts=False)

    @precondition(lambda self: self.running and self.pool.num_free)
    @rule(data=st.data())
    def grow(self, data: DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.running)))
        count = data.draw(st.integers(1, min(self.pool.num_free, 3)))
        self.running[index] += self.take(count)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def leave(self, data: DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.running)))
        blocks = self.running.pop(index)
        self.left.append(index)
        before = len(self.pool.evicted_ids)
        self.pool.release(reversed(blocks))
        for block in reversed(blocks):
            resident = [twin for twin in self.twin.blocks if twin.number == block.id]
            if not resident:
                self.num_blank += 1
                continue
            resident[0].refs -= 1
            if not resident[0].refs:
                self.now += 1
                resident[0].last = self.now
        evicted = self.pool.evicted_ids[before:]
        unused = sum(not block.refs for block in self.twin.blocks)
        assert len(evicted) == max(unused - self.capacity, 0)
        self.evict(evicted)
        self.num_blank += len(evicted)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.check_invariants()
        blocks = self.twin.blocks
        unused = sum(not block.refs for block in blocks)
        assert self.pool.num_cached_free == unused <= self.capacity
        assert self.pool.num_free == self.num_blank + unused
        resident = {block.key for block in blocks}
        assert set(self.pool.index) == {(0, key) for key in resident}
        assert all(key[:-1] in resident for key in resident if len(key) > 1), "an orphan"


@pytest.mark.parametrize("chosen", [*NAMES, "free queue"])
def test_pool_under_order(chosen: str) -> None:
    class UnderThis(PoolUnderOrder):
        name = chosen

    few = max(settings().max_examples // 5, 1)
    steps = settings(stateful_step_count=40, max_examples=few)
    run_state_machine_as_test(UnderThis, settings=steps)


@pytest.mark.parametrize("name", ON_TREES)
def test_trees_take_every_order_that_needs_no_names(name: str) -> None:
    """Random requests on a small radix cache: its invariants hold, the same victims every time."""

    def victims() -> list[int]:
        rnd, cache = Random(5), RadixCache(48, 2, "lru")
        order: EvictionOrder[Node] = make_order(name, make_context())
        cache.tree = RadixTree(2, order)
        leases: list[tuple[Lease, TokenRun]] = []
        evicted: list[int] = []
        for _ in range(300):
            if leases and rnd.random() < 0.5:
                lease, run = leases.pop(rnd.randrange(len(leases)))
                cache.finish(lease, run)
            else:
                run = TokenRun.of(tuple(rnd.randrange(2) for _ in range(rnd.randint(1, 9))), 1)
                admission = cache.start(run, len(run) + 2)
                evicted += admission.evicted
                if admission.lease is not None:
                    leases.append((admission.lease, run))
            cache.check_invariants()
        return evicted

    assert len(victims()) > 20
    assert victims() == victims()


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_order_has_no_victim(name: str) -> None:
    order: EvictionOrder[Block] = make_order(name, make_context())
    assert order.victim() is None
    assert len(order) == 0
    assert Block(1) not in order


def test_random_follows_the_seed_and_reaches_everyone() -> None:
    def draw(seed: int) -> list[int]:
        order: EvictionOrder[Block] = make_order("random", make_context(seed=seed))
        for number in range(8):
            order.released(Block(number))
        victims = []
        while (block := order.victim()) is not None:
            victims.append(block.id)
        return victims

    assert draw(1) == draw(1)
    assert sorted(draw(1)) == list(range(8))
    assert len({draw(seed)[0] for seed in range(100)}) == 8


def test_only_who_declares_it_sees_the_future() -> None:
    assert [name for name in NAMES if uses_oracle(name)] == ["furthest-next-use"]

    class Curious(KeyedOrder[Block]):
        def __init__(self, context: PolicyContext) -> None:
            super().__init__(lambda block: (block.created,))
            assert context.future is None
            assert context.truth is None

    EVICTION.builtins["curious"] = Curious
    try:
        make_order("curious", make_context())
    finally:
        del EVICTION.builtins["curious"]


def test_gdsf_needs_an_engine() -> None:
    with pytest.raises(ValueError, match="'gdsf' needs prefill costs, and no engine gives any"):
        make_order("gdsf", replace(make_context(), cost=None))


class Careless(KeyedOrder[Block]):
    """Forgets that blocks are in use."""

    def held(self, entry: Block) -> None:
        """Forget to."""


def test_an_order_that_chooses_a_held_block_is_stopped_by_name() -> None:
    pool = BlockPool(3, order=Careless(lambda block: (block.created,)))
    blocks = pool.take(2)
    for block in blocks:
        pool.set_key(block, block.id)
    pool.release(blocks)
    pool.touch(blocks[0])
    with pytest.raises(ValueError, match="eviction order Careless chose <block 1 refs=1"):
        pool.take(1)
