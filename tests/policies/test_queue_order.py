"""One behaviour suite for every queue order, and what each order is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import VICTIMS, last, lowest_priority
from kvsim.policies.queue_order import FCFS, QUEUE_ORDERS, Priority, QueueOrder
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence


def make_sequence(
    index: int, priority: int = 0, arrival_ps: int | None = None, name: str | None = None
) -> Sequence:
    return Sequence(
        index,
        name=f"r{index:04d}" if name is None else name,
        arrival_ps=index if arrival_ps is None else arrival_ps,
        prompt_tokens=10,
        max_tokens=10,
        priority=priority,
        public_keys=(),
    )


@pytest.fixture(params=sorted(QUEUE_ORDERS.builtins))
def queue(request: pytest.FixtureRequest) -> QueueOrder:
    queue = build(QUEUE_ORDERS.find(request.param), PolicyContext(SchedulerConfig()))
    assert queue.name == request.param
    return queue


def drained(queue: QueueOrder) -> list[int]:
    return [queue.pop().index for _ in range(len(queue))]


class TestEveryQueueOrder:
    def test_starts_empty(self, queue: QueueOrder) -> None:
        assert len(queue) == 0
        assert list(queue) == []

    def test_equal_requests_leave_in_order_of_arrival(self, queue: QueueOrder) -> None:
        for index in range(5):
            queue.push(make_sequence(index))
        assert drained(queue) == [0, 1, 2, 3, 4]

    def test_head_is_what_pop_takes(self, queue: QueueOrder) -> None:
        for index in (2, 0, 1):
            queue.push(make_sequence(index, priority=index % 2))
        while len(queue):
            head = queue.head()
            assert queue.head() is head
            assert queue.pop() is head

    def test_iterates_in_the_order_of_leaving(self, queue: QueueOrder) -> None:
        for index in (3, 1, 2, 0):
            queue.push(make_sequence(index, priority=-index))
        queue.push_preempted(make_sequence(4))
        assert [sequence.index for sequence in queue] == drained(queue)

    def test_one_can_be_taken_out_from_anywhere(self, queue: QueueOrder) -> None:
        sequences = [make_sequence(index) for index in range(4)]
        for sequence in sequences:
            queue.push(sequence)
        queue.remove(sequences[2])
        queue.remove(sequences[0])
        assert drained(queue) == [1, 3]

    def test_the_earliest_admitted_of_several_preempted_leaves_first(
        self, queue: QueueOrder
    ) -> None:
        queue.push(make_sequence(9))
        for index in (3, 2, 1):  # victims are put out last admitted first
            queue.push_preempted(make_sequence(index))
        assert drained(queue) == [1, 2, 3, 9]


def test_fcfs_ignores_priority() -> None:
    queue = FCFS()
    for index, priority in enumerate([5, 0, 3]):
        queue.push(make_sequence(index, priority))
    assert drained(queue) == [0, 1, 2]


def test_fcfs_puts_a_preempted_one_first_whenever_it_arrived() -> None:
    queue = FCFS()
    queue.push(make_sequence(0))
    queue.push_preempted(make_sequence(7))
    assert drained(queue) == [7, 0]


def test_priority_orders_by_priority_arrival_and_name() -> None:
    queue = Priority()
    queue.push(make_sequence(0, priority=1, arrival_ps=0))
    queue.push(make_sequence(1, priority=0, arrival_ps=9))
    queue.push(make_sequence(2, priority=0, arrival_ps=5, name="r9"))
    queue.push(make_sequence(3, priority=0, arrival_ps=5, name="r10"))
    assert drained(queue) == [3, 2, 1, 0]  # names as strings: "r10" < "r9"


def test_priority_sends_a_preempted_one_back_to_its_place() -> None:
    queue = Priority()
    queue.push(make_sequence(0, priority=0))
    queue.push_preempted(make_sequence(1, priority=2))
    queue.push(make_sequence(2, priority=1))
    assert drained(queue) == [0, 2, 1]


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=12))
def test_priority_is_a_sort(keys: list[tuple[int, int]]) -> None:
    queue = Priority()
    for index, (priority, arrival_ps) in enumerate(keys):
        queue.push(make_sequence(index, priority, arrival_ps))
    order = sorted(range(len(keys)), key=lambda index: (*keys[index], f"r{index:04d}"))
    assert drained(queue) == order


def test_an_unknown_order_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="'lifo' is unknown; choose one of fcfs, priority"):
        QUEUE_ORDERS.find("lifo")


def test_victims() -> None:
    running = [
        make_sequence(0, priority=1, arrival_ps=3),
        make_sequence(1, priority=2, arrival_ps=3),
        make_sequence(2, priority=2, arrival_ps=5),
        make_sequence(3, priority=2, arrival_ps=5),
        make_sequence(4, priority=0, arrival_ps=9),
    ]
    assert last(running).index == 4
    assert lowest_priority(running).index == 2  # the first of equals
    assert VICTIMS.builtins == {"last": last, "lowest-priority": lowest_priority}
