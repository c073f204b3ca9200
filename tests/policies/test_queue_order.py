"""One behaviour suite for every queue order, and what each order is."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.context import PolicyContext
from kvsim.policies.predictor import NoPrediction
from kvsim.policies.queue_order import FCFS, QUEUE_ORDERS, Priority, QueueOrder
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

PS: Final = 10**12


class Given:
    """A predictor, a cost and a cache whose answers are set by the test, a request each.

    A token of prefill lasts 1 s, one of decode 10 s.
    """

    name = "given"
    uses_oracle = False
    predicts = True

    def __init__(self) -> None:
        self.outputs: dict[int, int] = {}
        self.cached: dict[int, int] = {}

    def output_tokens(self, sequence: Sequence) -> int:
        return self.outputs.get(sequence.index, 1)

    def finished(self, sequence: Sequence) -> None:
        raise AssertionError("a queue tells nobody of ends")

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        return num_tokens * PS

    def decode_ps(self, num_tokens: int, context: int) -> int:
        return 10 * num_tokens * PS

    def cached_tokens(self, sequence: Sequence) -> int:
        return self.cached.get(sequence.index, 0)


def make_queue(name: str, told: Given | None = None, **rules: object) -> QueueOrder:
    told = Given() if told is None else told
    config = engine_config(queue__policy=name, **rules)
    context = PolicyContext(config, told, told, cached_tokens=told.cached_tokens)
    return build(QUEUE_ORDERS.find(name), context)


def make_sequence(index: int, priority: int = 0, **fields: Any) -> Sequence:
    values: dict[str, Any] = {
        "name": f"r{index:04d}",
        "arrival_ps": index,
        "prompt_tokens": 10,
        "max_tokens": 10,
        "priority": priority,
        "public_keys": (),
    }
    return Sequence(index, **(values | fields))


@pytest.fixture(params=sorted(QUEUE_ORDERS.builtins))
def queue(request: pytest.FixtureRequest) -> QueueOrder:
    queue = make_queue(request.param)
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
            queue.push(make_sequence(index, priority=-index, user=f"u{index % 2}"))
        queue.push_preempted(make_sequence(4))
        assert [sequence.index for sequence in queue] == drained(queue)

    def test_one_can_be_taken_out_from_anywhere(self, queue: QueueOrder) -> None:
        sequences = [make_sequence(index) for index in range(4)]
        for sequence in sequences:
            queue.push(sequence)
        queue.remove(sequences[2])
        queue.remove(sequences[0])
        assert drained(queue) == [1, 3]

    def test_a_preempted_one_can_be_taken_out(self, queue: QueueOrder) -> None:
        queue.push(make_sequence(0))
        back = make_sequence(1)
        queue.push_preempted(back)
        queue.remove(back)
        assert drained(queue) == [0]

    def test_the_earliest_admitted_of_several_preempted_leaves_first(
        self, queue: QueueOrder
    ) -> None:
        queue.push(make_sequence(9))
        for index in (3, 2, 1):  # victims are put out last admitted first
            queue.push_preempted(make_sequence(index))
        assert drained(queue) == [1, 2, 3, 9]

    @given(st.lists(st.sampled_from(["push", "preempt", "head", "pop", "remove"]), max_size=60))
    @pytest.mark.parametrize("name", sorted(QUEUE_ORDERS.builtins))
    def test_nobody_is_lost_and_nobody_comes_twice(self, name: str, actions: list[str]) -> None:
        told = Given()
        queue = make_queue(name, told, queue__quantum=7, queue__lpm_max_waiting=5)
        inside: dict[int, Sequence] = {}
        outside: list[Sequence] = []
        for number, action in enumerate(actions):
            told.outputs[number % 7] = 1 + number % 4
            told.cached[number % 5] = number % 10
            if action == "push":
                sequence = make_sequence(number, priority=number % 3, user=f"u{number % 4}")
                queue.push(sequence)
                inside[number] = sequence
            elif action == "preempt" and outside:
                sequence = outside.pop()
                queue.push_preempted(sequence)
                inside[sequence.index] = sequence
            elif inside and action == "head":
                assert queue.head().index in inside
            elif inside and action == "pop":
                outside.append(inside.pop(queue.pop().index))
            elif inside and action == "remove":
                queue.remove(inside.pop(min(inside)))
            assert sorted(sequence.index for sequence in queue) == sorted(inside)
            assert len(queue) == len(inside)


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
        queue.push(make_sequence(index, priority, arrival_ps=arrival_ps))
    order = sorted(range(len(keys)), key=lambda index: (*keys[index], f"r{index:04d}"))
    assert drained(queue) == order


def test_sjf_adds_uncached_prefill_and_predicted_decodes() -> None:
    told = Given()
    told.outputs = {0: 4, 1: 1, 2: 2}
    told.cached = {1: 15}
    queue = make_queue("sjf", told)
    for index, prompt in enumerate([5, 45, 18]):  # 5 + 30, 30 + 0, 18 + 10 seconds
        queue.push(make_sequence(index, prompt_tokens=prompt))
    assert drained(queue) == [2, 1, 0]


def test_sjf_counts_only_what_is_left_of_an_answer() -> None:
    told = Given()
    told.outputs = {0: 12, 1: 5}
    queue = make_queue("sjf", told)
    queue.push(make_sequence(1))  # 10 + 40 seconds
    back = make_sequence(0)
    back.num_tokens += 9  # 19 + 20
    queue.push_preempted(back)
    assert drained(queue) == [0, 1]


def test_sjf_takes_keys_anew_once_one_has_entered() -> None:
    told = Given()
    queue = make_queue("sjf", told)
    for index in range(3):
        queue.push(make_sequence(index))
    told.cached = {2: 9}
    assert queue.head().index == 0
    assert drained(queue) == [0, 2, 1]


def test_ageing_turns_seconds_waited_into_work() -> None:
    """Of two seconds of work more, a request that came four seconds earlier makes up with 0.5."""
    orders = {}
    for ageing in (0.49, 0.51):
        queue = make_queue("sjf", queue__ageing=ageing)
        queue.push(make_sequence(0, arrival_ps=0, prompt_tokens=12))
        queue.push(make_sequence(1, arrival_ps=4 * PS, prompt_tokens=10))
        orders[ageing] = drained(queue)
    assert orders == {0.49: [1, 0], 0.51: [0, 1]}


def test_sjf_refuses_to_go_without_predictions() -> None:
    context = PolicyContext(SchedulerConfig(), NoPrediction(), Given())
    with pytest.raises(ValueError, match=r"'sjf' needs predicted lengths, .*'none' has none"):
        build(QUEUE_ORDERS.find("sjf"), context)


@given(
    rows=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(0, 9)), max_size=12),
    ageing=st.sampled_from([0, 1, 3]),
)
def test_sjf_is_a_sort_by_work_and_age(rows: list[tuple[int, int, int]], ageing: int) -> None:
    """Naive twin: at 20 s, the least of ``work - ageing x (20 - arrival)``."""
    told = Given()
    queue = make_queue("sjf", told, queue__ageing=float(ageing))
    keys = []
    for index, (prompt, output, arrival_s) in enumerate(rows):
        told.outputs[index] = output
        queue.push(make_sequence(index, arrival_ps=arrival_s * PS, prompt_tokens=prompt))
        keys.append((prompt + 10 * (output - 1) - ageing * (20 - arrival_s), arrival_s, index))
    assert drained(queue) == [index for _, _, index in sorted(keys)]


@given(
    hits=st.lists(st.integers(0, 3), max_size=12),
    later=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    limit=st.sampled_from([None, 0, 4]),
)
def test_longest_prefix_match(hits: list[int], later: list[int], limit: int | None) -> None:
    """Naive twin: most cached first, as the cache is when each is taken; FCFS in long queues."""
    told = Given()
    queue = make_queue("longest-prefix-match", told, queue__lpm_max_waiting=limit)
    left = list(range(len(hits)))
    for index in left:
        queue.push(make_sequence(index))
    told.cached = dict(enumerate(hits))
    while left:
        best = min(left, key=lambda index: (-told.cached[index], index))
        expected = left[0] if limit is not None and len(left) > limit else best
        assert queue.head().index == expected
        assert queue.pop().index == expected
        left.remove(expected)
        told.cached = dict(enumerate(later[: len(hits)]))


class RoundRobin:
    """Deficit round robin as in the paper: one turn after the other, one quantum each."""

    def __init__(self, quantum: int) -> None:
        self.quantum = quantum
        self.ring: deque[str] = deque()
        self.waiting: dict[str, deque[tuple[int, int]]] = {}
        self.deficit: Counter[str] = Counter()
        self.began = False

    def push(self, user: str, index: int, cost: int) -> None:
        if user not in self.waiting:
            self.waiting[user] = deque()
            self.ring.append(user)
        self.waiting[user].append((index, cost))

    def pop(self) -> int:
        while True:
            user = self.ring[0]
            if not self.began:
                self.deficit[user] += self.quantum
                self.began = True
            index, cost = self.waiting[user][0]
            if cost <= self.deficit[user]:
                break
            self.ring.rotate(-1)
            self.began = False
        self.deficit[user] -= cost
        self.waiting[user].popleft()
        if not self.waiting[user]:
            del self.waiting[user], self.deficit[user]
            self.ring.popleft()
            self.began = False
        return index


@given(
    requests=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), max_size=25),
    pops=st.lists(st.integers(0, 3), min_size=25, max_size=25),
    quantum=st.integers(1, 40),
)
def test_fair_is_deficit_round_robin(
    requests: list[tuple[str, int]], pops: list[int], quantum: int
) -> None:
    told = Given()
    ours, twin = make_queue("fair", told, queue__quantum=quantum), RoundRobin(quantum)
    for index, (user, prompt) in enumerate(requests):
        told.outputs[index] = index % 4 + 1
        ours.push(make_sequence(index, user=user, prompt_tokens=prompt))
        twin.push(user, index, prompt + told.outputs[index])
        for _ in range(min(pops[index], len(ours))):
            assert ours.head().index == ours.pop().index == twin.pop()
    assert drained(ours) == [twin.pop() for _ in range(sum(map(len, twin.waiting.values())))]


@given(
    prompts=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=20),
    quantum=st.integers(1, 60),
)
def test_two_users_with_a_backlog_get_the_same_tokens_but_for_a_quantum_and_a_request(
    prompts: list[tuple[int, int]], quantum: int
) -> None:
    """Each has had as many quanta, or one more, less a deficit below its largest request."""
    told, served = Given(), Counter[str]()
    told.outputs = dict.fromkeys(range(100), 0)
    queue = make_queue("fair", told, queue__quantum=quantum)
    for row, pair in enumerate(prompts):
        for user, prompt in zip("ab", pair, strict=True):
            queue.push(make_sequence(2 * row + (user == "b"), user=user, prompt_tokens=prompt))
    left = Counter(a=len(prompts), b=len(prompts))
    largest = max(map(max, prompts))
    while min(left.values()):
        entered = queue.pop()
        served[entered.user] += entered.prompt_tokens
        left[entered.user] -= 1
        if min(left.values()):  # both are backlogged
            assert abs(served["a"] - served["b"]) < quantum + largest


def test_two_users_of_equal_requests_are_never_more_than_a_quantum_apart() -> None:
    queue, served = make_queue("fair", queue__quantum=33), Counter[str]()
    for index in range(40):
        queue.push(make_sequence(index, user="ab"[index >= 20]))
    apart = []
    for _ in range(38):  # both wait until the very end
        served[queue.pop().user] += 11
        apart.append(served["a"] - served["b"])
    assert apart[:7] == [11, 22, 33, 22, 11, 0, 11]  # three requests of 11 tokens a turn
    assert max(map(abs, apart)) == 33


def test_a_user_of_many_requests_does_not_hold_up_one_of_few() -> None:
    queue = make_queue("fair", queue__quantum=11)  # a prompt of 10 and an output of 1
    for index in range(6):
        queue.push(make_sequence(index, user="many"))
    for index in range(6, 8):
        queue.push(make_sequence(index, user="few"))
    assert drained(queue) == [0, 6, 1, 7, 2, 3, 4, 5]


def test_without_predictions_fair_charges_prompts() -> None:
    rules = engine_config(queue__policy="fair", queue__quantum=10)
    queue = build(QUEUE_ORDERS.find("fair"), PolicyContext(rules))
    for index, (user, prompt) in enumerate([("a", 20), ("b", 10), ("a", 10), ("b", 10)]):
        queue.push(make_sequence(index, user=user, prompt_tokens=prompt))
    assert drained(queue) == [1, 0, 3, 2]


def test_an_unknown_order_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="'lifo' is unknown; choices: fcfs, priority, sjf"):
        QUEUE_ORDERS.find("lifo")
