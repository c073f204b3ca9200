"""Single scheduling calls, decided by hand."""

from __future__ import annotations

import pytest

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.batching import BATCHING, MixedRunningFirst, SchedulerState
from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config


class Calls:
    """A state and its scheduling calls; each is followed by its results."""

    def __init__(self, *prompts: int, priorities: tuple[int, ...] = (), **rules: object) -> None:
        rules = {"block_size": 4, "max_num_batched_tokens": 16, "num_gpu_blocks": 11} | rules
        self.config = engine_config(**rules)
        context = PolicyContext(self.config)
        self.state = SchedulerState(
            context,
            PagedAllocator(self.config),
            build(QUEUE_ORDERS.find(self.config.queue.policy), context),
            VICTIMS.find(self.config.preemption.victim),
        )
        self.waits_for: str | None = None
        for index, prompt in enumerate(prompts):
            self.arrive(index, prompt, priorities[index] if priorities else 0)

    def arrive(self, index: int, prompt: int, priority: int = 0) -> None:
        self.state.waiting.push(Sequence(index, f"r{index}", index, prompt, 50, priority, ()))

    def call(self) -> list[tuple[int, int]]:
        """One call: (index, tokens) in order. Afterwards tokens are computed and sampled."""
        step = MixedRunningFirst().compose(self.state)
        self.waits_for = step.waits_for
        self.preempted = [victim.sequence.index for victim in step.preempted]
        for sequence, tokens, past in step.items:
            sequence.num_computed_tokens = past + tokens
            if sequence.num_computed_tokens == sequence.num_tokens:
                sequence.num_tokens += 1
        self.state.allocator.check_invariants()
        return [(item.sequence.index, item.num_tokens) for item in step.items]

    def finish(self, index: int) -> None:
        sequence = next(s for s in self.state.running if s.index == index)
        self.state.running.remove(sequence)
        self.state.allocator.release(sequence)


def test_decodes_come_first_and_a_prompt_gets_the_rest_of_the_budget() -> None:
    calls = Calls(6, 4)
    assert calls.call() == [(0, 6), (1, 4)]
    calls.arrive(2, 20)
    assert calls.call() == [(0, 1), (1, 1), (2, 14)]
    assert calls.call() == [(0, 1), (1, 1), (2, 6)]


def test_who_waits_for_what() -> None:
    calls = Calls(10, 10, 3, max_num_seqs=2)
    assert calls.call() == [(0, 10), (1, 6)]
    assert calls.waits_for == "max_num_seqs"
    calls = Calls(16, 4)
    assert calls.call() == [(0, 16)]
    assert calls.waits_for == "token_budget"
    calls = Calls(14, 40)
    assert calls.call() == [(0, 14)]
    assert calls.waits_for == "admission rule"
    assert Calls(14, 1).call() == [(0, 14), (1, 1)]
    calls = Calls(16, num_gpu_blocks=5)
    assert calls.call() == [(0, 16)]
    calls.arrive(1, 4)
    assert (calls.call(), calls.preempted) == ([], [0])  # it lacks a block for its next token
    assert calls.waits_for == "blocks"


def test_only_the_head_is_tried() -> None:
    calls = Calls(8, 40, 4)
    assert calls.call() == [(0, 8)]
    assert [sequence.index for sequence in calls.state.waiting] == [1, 2]


def test_without_chunks_a_prompt_waits_for_a_budget_that_holds_it() -> None:
    calls = Calls(6, 12, enable_chunked_prefill=False)
    assert calls.call() == [(0, 6)]
    assert calls.waits_for == "token_budget"
    assert calls.call() == [(0, 1), (1, 12)]


def test_the_threshold_cuts_chunks_but_not_those_of_a_lone_request() -> None:
    calls = Calls(8, batching__long_prefill_token_threshold=4)
    assert calls.call() == [(0, 8)]
    calls = Calls(8, 8, batching__long_prefill_token_threshold=4)
    assert calls.call() == [(0, 4), (1, 4)]
    older = Calls(
        8,
        batching__long_prefill_token_threshold=4,
        batching__lone_request_exempt_from_threshold=False,
    )
    assert older.call() == [(0, 4)]


def test_the_last_one_is_preempted_and_nobody_enters_then() -> None:
    calls = Calls(12, 8, 4, num_gpu_blocks=6, max_num_batched_tokens=20, max_num_seqs=2)
    assert calls.call() == [(0, 12), (1, 8)]
    assert calls.call() == [(0, 1)]  # 3 blocks, then the 2 of r1
    assert calls.preempted == [1]
    assert [sequence.index for sequence in calls.state.waiting] == [1, 2]
    assert calls.waits_for == "blocks"
    victim = calls.state.waiting.head()
    assert (victim.num_computed_tokens, victim.num_tokens, victim.num_preemptions) == (0, 9, 1)


def test_a_sequence_may_preempt_itself() -> None:
    calls = Calls(12, 8, num_gpu_blocks=6, max_num_batched_tokens=20)
    calls.call()
    calls.state.running.reverse()
    assert calls.call() == [(1, 1)]
    assert calls.preempted == [0]


PRIORITY = {"queue__policy": "priority", "num_gpu_blocks": 6, "max_num_batched_tokens": 20}


def test_a_victim_that_was_scheduled_gives_its_budget_back() -> None:
    calls = Calls(7, 12, priorities=(1, 0), **PRIORITY)
    calls.call()
    calls.state.running.sort(key=lambda sequence: -sequence.priority)  # r0 is admitted first
    assert calls.call() == [(1, 1)]
    assert calls.preempted == [0]


def test_a_waiting_request_never_preempts() -> None:
    calls = Calls(12, priorities=(5,), **PRIORITY)
    calls.call()
    calls.arrive(1, 12, priority=0)
    assert calls.call() == [(0, 1)]
    assert calls.preempted == []


def test_a_last_token_in_flight_is_passed_over() -> None:
    calls = Calls(4, 4)
    calls.call()
    first = calls.state.running[0]
    first.num_output_placeholders, first.num_tokens = (
        1,
        53,
    )  # 49 of 50 outputs, the last one in flight
    assert calls.call() == [(1, 1)]


@pytest.mark.parametrize(("keeps_room", "tokens"), [(True, 7), (False, 8)])
def test_sequences_end_at_the_model_length(keeps_room: bool, tokens: int) -> None:
    calls = Calls(4, max_model_len=8, batching__keep_room_for_last_token=keeps_room)
    calls.call()
    sequence = calls.state.running[0]
    sequence.num_tokens = 8
    assert calls.call()[0][1] == tokens - 4


def test_names() -> None:
    batching = build(BATCHING.find("mixed-running-first"), PolicyContext(SchedulerConfig()))
    assert isinstance(batching, MixedRunningFirst)
    with pytest.raises(ValueError, match=r"'orca' is unknown; choices: .*mixed-running-first"):
        BATCHING.find("orca")
