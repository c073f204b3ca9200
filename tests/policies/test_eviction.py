"""One suite for all eviction orders that are a key, and each key by hand."""

from __future__ import annotations

from dataclasses import dataclass

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

from kvsim.policies.eviction import EVICTION_KEYS, KeyedOrder, make_order


@dataclass(eq=False)
class Used:
    """An entry with a name."""

    name: str
    created: int = 0
    last_access: int = 0
    num_hits: int = 1
    priority: int = 0
    num_tokens: int = 16
    past: int = 0


def make_entries() -> list[Used]:
    return [
        Used("a", created=1, last_access=9, num_hits=1, priority=2),
        Used("b", created=2, last_access=5, num_hits=4, priority=1),
        Used("c", created=3, last_access=4, num_hits=2, priority=1),
        Used("d", created=4, last_access=7, num_hits=1, priority=1),
    ]


EXPECTED = {
    "fifo": "abcd",
    "filo": "dcba",
    "length-aware": "dacb",
    "lfu": "dacb",
    "lru": "cbda",
    "mru": "adbc",
    "priority": "cbda",
    "slru": "dacb",
}


def drain(order: KeyedOrder[Used]) -> str:
    names = ""
    while (entry := order.victim()) is not None:
        names += entry.name
    return names


def test_every_order_is_listed_here() -> None:
    assert set(EXPECTED) == set(EVICTION_KEYS)


@pytest.mark.parametrize("name", EXPECTED)
def test_order(name: str) -> None:
    order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS[name])
    for entry in make_entries():
        order.released(entry)
    order.check_invariants()
    assert drain(order) == EXPECTED[name]
    assert order.victim() is None


def test_slru_protects_from_two_hits_on_and_lfu_goes_on_counting() -> None:
    often, twice = Used("often", num_hits=9, last_access=1), Used("twice", num_hits=2)
    twice.last_access = 5
    once = Used("once", num_hits=1, last_access=8)
    for name, expected in (("slru", "onceoftentwice"), ("lfu", "oncetwiceoften")):
        order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS[name])
        for entry in (often, twice, once):
            order.released(entry)
        assert drain(order) == expected


def test_equal_keys_leave_as_they_came() -> None:
    order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS["lru"])
    for name in "xyz":
        order.released(Used(name))
    assert drain(order) == "xyz"


def test_unknown_names_list_the_choices() -> None:
    message = "eviction policy 'lur' is unknown .*'lru'.*: lru, fifo, .*, or module:name"
    with pytest.raises(ValueError, match=message):
        make_order("lur")


def test_invariants_see_a_change_that_was_not_told() -> None:
    order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS["lru"])
    entry = Used("a")
    order.released(entry)
    entry.last_access = 3
    with pytest.raises(AssertionError, match=r"the key of .* is stale"):
        order.check_invariants()
    order.released(entry)
    order.check_invariants()


def test_invariants_see_a_candidate_that_the_heap_lacks() -> None:
    order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS["lru"])
    order.released(Used("a"))
    order._heap.clear()
    with pytest.raises(AssertionError, match="not in the heap exactly once"):
        order.check_invariants()


def test_the_heap_stays_small() -> None:
    order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS["lru"])
    entries = make_entries()
    for now in range(10_000):
        entries[now % 4].last_access = now
        order.released(entries[now % 4])
    assert len(order._heap) < 100
    order.check_invariants()


class OrderAgainstList(RuleBasedStateMachine):
    """An order beside a list that is sorted at every pop."""

    @initialize(name=st.sampled_from(sorted(EVICTION_KEYS)))
    def start(self, name: str) -> None:
        self.key = EVICTION_KEYS[name]
        self.order: KeyedOrder[Used] = KeyedOrder(EVICTION_KEYS[name])
        self.entries = [Used(f"e{number}") for number in range(6)]
        self.twin: list[Used] = []
        self.now = 0

    @rule(number=st.integers(0, 5), hit=st.booleans(), priority=st.integers(0, 2))
    def put(self, number: int, hit: bool, priority: int) -> None:
        entry = self.entries[number]
        self.now += 1
        if entry not in self.twin:
            entry.created = self.now
            self.twin.append(entry)
        entry.last_access, entry.priority = self.now, priority
        entry.num_hits += hit
        self.order.released(entry)

    @rule(number=st.integers(0, 5))
    def discard(self, number: int) -> None:
        self.order.held(self.entries[number])
        self.twin = [entry for entry in self.twin if entry is not self.entries[number]]

    @precondition(lambda self: self.twin)
    @rule()
    def pop(self) -> None:
        smallest = min(self.twin, key=self.key)
        assert self.order.victim() is smallest
        self.twin.remove(smallest)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "order"):
            return
        self.order.check_invariants()
        assert len(self.order) == len(self.twin)
        assert [entry in self.order for entry in self.entries] == [
            entry in self.twin for entry in self.entries
        ]


def test_orders_against_a_list() -> None:
    run_state_machine_as_test(OrderAgainstList, settings=settings(stateful_step_count=40))
