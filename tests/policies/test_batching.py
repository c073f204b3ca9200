"""One behaviour suite for every batching, and what `iteration-level` is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators import make_allocator
from kvsim.policies.batching import BATCHING, SchedulerState
from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep

MAX_TOKENS = 50


class Truth:
    """Every answer has the length that its client allowed."""

    def num_outputs(self, index: int) -> int:
        return MAX_TOKENS

    def num_slots(self, index: int) -> int:
        raise NotImplementedError(index)


class Calls:
    """A batching's scheduling calls; each is followed by its results."""

    def __init__(self, name: str, *prompts: int, **rules: object) -> None:
        defaults = {
            "batching": name,
            "block_size": 4,
            "num_gpu_blocks": 51,
            "max_num_batched_tokens": 16,
            "max_model_len": 100,
            "enable_prefix_caching": False,
        }
        self.config = SchedulerConfig(**(defaults | rules))  # type: ignore[arg-type]
        context = PolicyContext(self.config, truth=Truth())
        queue = build(QUEUE_ORDERS.find(self.config.policy), context)
        self.state = SchedulerState(context, make_allocator(context), queue, VICTIMS.find("last"))
        self.batching = build(BATCHING.find(name), context)
        for index, prompt in enumerate(prompts):
            self.arrive(index, prompt)

    def arrive(self, index: int, prompt: int) -> None:
        self.state.waiting.push(Sequence(index, f"r{index}", index, prompt, MAX_TOKENS, 0, ()))

    def call(self) -> list[tuple[int, int]]:
        """One call: (index, tokens) in order. Afterwards tokens are computed and sampled."""
        self.step: ScheduledStep = self.batching.compose(self.state)
        for sequence, tokens, past in self.step.items:
            assert past == sequence.computed
            sequence.computed = past + tokens
            if sequence.computed == sequence.known:
                sequence.known += 1
        self.state.allocator.check_invariants()
        return [(item.sequence.index, item.num_tokens) for item in self.step.items]

    def finish(self, index: int) -> None:
        sequence = next(s for s in self.state.running if s.index == index)
        self.state.running.remove(sequence)
        self.state.allocator.release(sequence)


@pytest.mark.parametrize("name", sorted(BATCHING.builtins))
class TestEveryBatching:
    def test_is_found_under_its_name(self, name: str) -> None:
        assert Calls(name).batching.name == name

    def test_nothing_to_do_is_an_empty_step(self, name: str) -> None:
        calls = Calls(name)
        assert calls.call() == []
        assert (calls.step.admitted, calls.step.preempted, calls.step.waits_for) == ([], [], None)

    def test_running_sequences_come_before_those_that_wait(self, name: str) -> None:
        calls = Calls(name, 6, 4)
        assert calls.call() == [(0, 6), (1, 4)]
        calls.arrive(2, 3)
        assert calls.call() == [(0, 1), (1, 1), (2, 3)]
        assert calls.call() == [(0, 1), (1, 1), (2, 1)]

    def test_a_seat_is_waited_for_and_taken_when_free(self, name: str) -> None:
        calls = Calls(name, 3, 4, 5, max_num_seqs=2)
        assert calls.call() == [(0, 3), (1, 4)]
        assert calls.step.waits_for == "seats"
        calls.finish(0)
        assert calls.call() == [(1, 1), (2, 5)]
        assert calls.step.waits_for is None

    def test_only_the_head_is_tried(self, name: str) -> None:
        calls = Calls(name, 12, 15, 2, num_gpu_blocks=6)
        assert calls.call()[0] == (0, 12)
        assert [sequence.index for sequence in calls.state.waiting] == [1, 2]
        assert calls.step.waits_for in {"blocks", "admission rule"}

    def test_who_lacks_memory_preempts_the_victim_and_nobody_enters(self, name: str) -> None:
        calls = Calls(name, 8, 8, num_gpu_blocks=5)
        assert calls.call() == [(0, 8), (1, 8)]
        calls.arrive(2, 1)
        assert calls.call() == [(0, 1)]
        assert [victim.sequence.index for victim in calls.step.preempted] == [1]
        assert (calls.step.admitted, calls.step.waits_for) == ([], "blocks")

    def test_reservations_are_never_outgrown(self, name: str) -> None:
        rules = {"allocator": "contiguous", "block_size": 1, "num_gpu_blocks": 300}
        calls = Calls(name, 9, 9, 9, placement="first-fit", **rules)
        for _ in range(60):
            calls.call()
            assert not calls.step.preempted
        assert len(calls.state.running) == 3
        calls.arrive(3, 1)
        assert len(calls.call()) == 3
        assert calls.step.waits_for == "blocks"

    @given(
        prompts=st.lists(st.integers(1, 40), max_size=8),
        seats=st.integers(1, 4),
        blocks=st.integers(14, 40),
    )
    def test_steps_hold_each_member_once_and_never_too_many(
        self, name: str, prompts: list[int], seats: int, blocks: int
    ) -> None:
        calls = Calls(name, *prompts, max_num_seqs=seats, num_gpu_blocks=blocks)
        for _ in range(8):
            served = [index for index, _ in calls.call()]
            running = {sequence.index for sequence in calls.state.running}
            assert len(set(served)) == len(served) <= seats
            assert set(served) <= running
            waiting = {sequence.index for sequence in calls.state.waiting}
            assert waiting | running == set(range(len(prompts)))
            assert (calls.step.waits_for is None) == (not waiting)


def test_iteration_level_has_no_budget_and_no_chunks() -> None:
    calls = Calls("iteration-level", 40, 30, long_prefill_token_threshold=4)
    assert calls.call() == [(0, 40), (1, 30)]
    calls.arrive(2, 50)
    assert calls.call() == [(0, 1), (1, 1), (2, 50)]
    assert calls.step.waits_for is None
    assert Calls("mixed-running-first", 40, 30).call() == [(0, 16)]
