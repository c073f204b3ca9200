"""Free queue and block pool: exact orders, and random operations against naive twins."""

from __future__ import annotations

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

from kvsim.policies.allocators.block_pool import Block, BlockPool, FreeQueue


def ids(queue: FreeQueue) -> list[int]:
    return [block.id for block in queue]


def test_the_null_block_is_never_handed_out() -> None:
    pool = BlockPool(4)
    assert pool.null.id == 0
    assert pool.num_free == 3
    assert [block.id for block in pool.take(3)] == [1, 2, 3]
    with pytest.raises(AssertionError, match="the free queue is empty"):
        pool.take(1)


def test_released_blocks_without_a_key_are_taken_first() -> None:
    pool = BlockPool(6)
    blocks = pool.take(3)
    pool.release(reversed(blocks))
    assert ids(pool.free_queue) == [3, 2, 1, 4, 5]  # first given up = very front


def test_released_blocks_with_a_key_are_taken_last_tail_before_head() -> None:
    pool = BlockPool(6)
    blocks = pool.take(3)
    for block in blocks[:2]:
        pool.set_key(block, f"key {block.id}")
    pool.release(reversed(blocks))
    assert ids(pool.free_queue) == [3, 4, 5, 2, 1]
    assert pool.num_cached_free == 2


def test_older_engines_take_all_released_blocks_last() -> None:
    pool = BlockPool(6, unkeyed_to_front=False)
    pool.release(reversed(pool.take(3)))
    assert ids(pool.free_queue) == [4, 5, 3, 2, 1]


def test_a_block_loses_its_key_when_it_is_taken_not_before() -> None:
    pool = BlockPool(3)
    blocks = pool.take(2)
    pool.set_key(blocks[0], "a")
    pool.release(blocks)
    assert pool.lookup("a") is blocks[0]
    pool.take(1)
    assert (pool.lookup("a"), pool.num_evicted) == (blocks[0], 0)  # block 2 had no key
    pool.take(1)
    assert (pool.lookup("a"), pool.evicted_ids) == (None, [1])


def test_a_lookup_does_not_refresh_but_a_reference_does() -> None:
    pool = BlockPool(3)
    blocks = pool.take(2)
    for block, key in zip(blocks, "ab", strict=True):
        pool.set_key(block, key)
    pool.release(blocks)
    assert pool.lookup("a") is blocks[0]
    assert ids(pool.free_queue) == [1, 2]
    pool.touch(blocks[0])
    pool.release([blocks[0]])
    assert ids(pool.free_queue) == [2, 1]


def test_the_oldest_copy_is_found_and_an_evicted_one_removes_only_itself() -> None:
    pool = BlockPool(4)
    blocks = pool.take(3)
    for block in blocks:
        pool.set_key(block, "a")
    assert pool.lookup("a") is blocks[0]
    assert pool.num_duplicates == 2
    pool.release([blocks[0]])
    assert pool.num_duplicates == 1  # a copy that nobody owns is cached, not duplicate
    pool.take(1)
    assert pool.lookup("a") is blocks[1]
    assert pool.num_duplicates == 1
    pool.check_invariants()


def test_a_shared_block_is_free_when_its_last_owner_gives_it_up() -> None:
    pool = BlockPool(3)
    (block,) = pool.take(1)
    pool.set_key(block, "a")
    pool.touch(block)
    pool.release([block])
    assert pool.num_free == 1
    pool.release([block])
    assert ids(pool.free_queue) == [2, 1]


def test_giving_up_the_null_block_changes_nothing() -> None:
    pool = BlockPool(3)
    pool.release([pool.null])
    assert (pool.null.ref_count, pool.num_free) == (0, 2)


def test_callers_bugs_are_refused() -> None:
    pool = BlockPool(3)
    (block,) = pool.take(1)
    pool.set_key(block, "a")
    with pytest.raises(AssertionError, match="has a key already"):
        pool.set_key(block, "b")
    pool.release([block])
    with pytest.raises(AssertionError, match="released twice"):
        pool.release([block])


def broken_pool() -> tuple[BlockPool, Block]:
    pool = BlockPool(5)
    blocks = pool.take(2)
    pool.set_key(blocks[0], "a")
    pool.release([blocks[1]])
    return pool, blocks[0]


def test_invariants_hold_in_an_unbroken_pool() -> None:
    broken_pool()[0].check_invariants()


def test_invariants_see_a_wrong_reference() -> None:
    pool, block = broken_pool()
    block.ref_count = 0
    with pytest.raises(AssertionError, match="a block is lost"):
        pool.check_invariants()


def test_invariants_see_an_owned_block_in_the_queue() -> None:
    pool, block = broken_pool()
    pool.free_queue.push_back(block)
    with pytest.raises(AssertionError, match="a referenced block is queued"):
        pool.check_invariants()


@pytest.mark.parametrize(
    ("counter", "message"),
    [("num_cached_free", "cached count is off"), ("num_duplicates", "duplicate count is off")],
)
def test_invariants_see_a_wrong_counter(counter: str, message: str) -> None:
    pool, _ = broken_pool()
    setattr(pool, counter, getattr(pool, counter) + 1)
    with pytest.raises(AssertionError, match=message):
        pool.check_invariants()


def test_invariants_see_a_wrong_queue_length() -> None:
    pool, _ = broken_pool()
    pool.free_queue.num_blocks += 1
    with pytest.raises(AssertionError, match="free queue count is off"):
        pool.check_invariants()


def test_invariants_see_an_index_that_lacks_a_key() -> None:
    pool, _ = broken_pool()
    pool.index.clear()
    with pytest.raises(AssertionError, match="index and keys differ"):
        pool.check_invariants()


class QueueAgainstList(RuleBasedStateMachine):
    """A free queue beside a plain list of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [Block(number) for number in range(8)]
        self.queue = FreeQueue(self.blocks[:5])
        self.twin = [0, 1, 2, 3, 4]

    def _out(self) -> list[int]:
        return [block.id for block in self.blocks if block.id not in self.twin]

    @precondition(lambda self: self.twin)
    @rule()
    def pop_front(self) -> None:
        assert self.queue.pop_front().id == self.twin.pop(0)

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.twin))
        self.queue.remove(self.blocks[number])
        self.twin.remove(number)

    @precondition(lambda self: self._out())
    @rule(data=st.data())
    def push_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self._out()))
        self.queue.push_back(self.blocks[number])
        self.twin.append(number)

    @rule(data=st.data())
    def push_front(self, data: st.DataObject) -> None:
        numbers = data.draw(st.permutations(self._out()))
        self.queue.push_front([self.blocks[number] for number in numbers])
        self.twin[:0] = numbers

    @invariant()
    def same_order(self) -> None:
        assert ids(self.queue) == self.twin
        assert self.queue.num_blocks == len(self.twin)


KEYS = st.sampled_from("abc")


class PoolAgainstLists(RuleBasedStateMachine):
    """A pool beside plain lists: the queue's order, who holds what, keys in order of entry."""

    @initialize(front=st.booleans())
    def start(self, front: bool) -> None:
        self.front = front
        self.pool = BlockPool(9, unkeyed_to_front=front)
        self.blocks = {block.id: block for block in self.pool.free_queue}
        self.queue = list(range(1, 9))
        self.refs = dict.fromkeys(self.queue, 0)
        self.keys: list[tuple[str, int]] = []  # (key, block), oldest first
        self.evicted: list[int] = []

    def _key_of(self, number: int) -> str | None:
        return next((key for key, block in self.keys if block == number), None)

    def _owned(self) -> list[int]:
        return [number for number, refs in self.refs.items() if refs]

    @rule(count=st.integers(0, 4))
    def take(self, count: int) -> None:
        count = min(count, len(self.queue))
        taken = [block.id for block in self.pool.take(count)]
        assert taken == self.queue[:count]
        del self.queue[:count]
        for number in taken:
            self.refs[number] = 1
            if self._key_of(number) is not None:
                self.evicted.append(number)
                self.keys = [entry for entry in self.keys if entry[1] != number]

    @rule(key=KEYS)
    def hit(self, key: str) -> None:
        oldest = next((number for other, number in self.keys if other == key), None)
        found = self.pool.lookup(key)
        assert (found.id if found else None) == oldest
        if found is not None:
            self.pool.touch(found)
            if self.refs[found.id] == 0:
                self.queue.remove(found.id)
            self.refs[found.id] += 1

    @precondition(lambda self: any(self._key_of(number) is None for number in self._owned()))
    @rule(data=st.data(), key=KEYS)
    def set_key(self, data: st.DataObject, key: str) -> None:
        plain = [number for number in self._owned() if self._key_of(number) is None]
        number = data.draw(st.sampled_from(plain))
        self.pool.set_key(self.blocks[number], key)
        self.keys.append((key, number))

    @precondition(lambda self: self._owned())
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        numbers = data.draw(st.lists(st.sampled_from(self._owned()), unique=True))
        self.pool.release([self.blocks[number] for number in numbers])
        freed = []
        for number in numbers:
            self.refs[number] -= 1
            if not self.refs[number]:
                freed.append(number)
        first = [n for n in freed if self.front and self._key_of(n) is None]
        self.queue[:0] = first
        self.queue += [n for n in freed if n not in first]

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "pool"):
            return
        pool = self.pool
        pool.check_invariants()
        assert ids(pool.free_queue) == self.queue
        assert pool.num_free == len(self.queue)
        assert pool.evicted_ids == self.evicted
        assert pool.num_evicted == len(self.evicted)
        assert {number: block.ref_count for number, block in self.blocks.items()} == self.refs
        entered = {key: [n for other, n in self.keys if other == key] for key, _ in self.keys}
        assert {key: list(copies) for key, copies in pool.index.items()} == entered
        assert pool.num_cached_free == sum(not self.refs[number] for _, number in self.keys)
        owned = [[n for n in copies if self.refs[n]] for copies in entered.values()]
        assert pool.num_duplicates == sum(max(len(copies) - 1, 0) for copies in owned)


STEPS = settings(stateful_step_count=40)


def test_queue_against_a_list() -> None:
    run_state_machine_as_test(QueueAgainstList, settings=STEPS)


def test_pool_against_lists() -> None:
    run_state_machine_as_test(PoolAgainstLists, settings=STEPS)
