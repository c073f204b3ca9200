"""One behaviour suite for every batching, and what `iteration-level` is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators import make_allocator
from kvsim.policies.batching import BATCHING, SchedulerState
from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep

MAX_TOKENS = 50


@dataclass(frozen=True)
class Kind:
    """One batching with its rules, and what is true of it."""

    batching: str
    rules: dict[str, object] = field(default_factory=dict)
    mixes: bool = True  # prompts and decodes in one step
    joins: bool = True  # somebody may enter while others run
    preempts: bool = True
    has_budget: bool = True
    reserves: bool = True  # works with contiguous reservations


KINDS = {
    "mixed-running-first": Kind("mixed-running-first"),
    "iteration-level": Kind("iteration-level", has_budget=False),
    "prefill-first": Kind("prefill-first", mixes=False, reserves=False),
    "prefill-first, watermark": Kind(
        "prefill-first",
        {"batching__prefill_rule": "watermark", "batching__watermark": 0.05},
        mixes=False,
        reserves=False,
    ),
    "static": Kind("static", mixes=False, joins=False, has_budget=False),
    "token-budget": Kind("token-budget", mixes=False, preempts=False, reserves=False),
    "no-evict": Kind("no-evict", preempts=False),
}


class Truth:
    """Every answer has the length that its client allowed."""

    def num_outputs(self, index: int) -> int:
        return MAX_TOKENS

    def num_slots(self, index: int) -> int:
        raise NotImplementedError(index)


class Calls:
    """A batching's scheduling calls; each is followed by its results."""

    def __init__(
        self, kind: Kind, *prompts: int, max_tokens: int = MAX_TOKENS, **rules: object
    ) -> None:
        defaults = {
            "batching__policy": kind.batching,
            "block_size": 4,
            "num_gpu_blocks": 51,
            "max_num_batched_tokens": 16,
            "max_model_len": 100,
            "enable_prefix_caching": False,
        }
        self.config = engine_config(**(defaults | kind.rules | rules))
        context = PolicyContext(self.config, truth=Truth())
        queue = build(QUEUE_ORDERS.find(self.config.queue.policy), context)
        self.state = SchedulerState(context, make_allocator(context), queue, VICTIMS.find("last"))
        self.batching = build(BATCHING.find(kind.batching), context)
        self.decoding: set[int] = set()
        for index, prompt in enumerate(prompts):
            self.arrive(index, prompt, max_tokens)

    def arrive(self, index: int, prompt: int, max_tokens: int = MAX_TOKENS) -> None:
        self.state.waiting.push(Sequence(index, f"r{index}", index, prompt, max_tokens, 0, ()))

    def call(self) -> list[tuple[int, int]]:
        """One call: (index, tokens) in order. Afterwards tokens are computed and sampled."""
        self.step: ScheduledStep = self.batching.compose(self.state)
        self.decoding -= {gone.sequence.index for gone in self.step.preempted}
        self.phases = {item.sequence.index in self.decoding for item in self.step.items}
        for sequence, tokens, past in self.step.items:
            assert past == sequence.num_computed_tokens, "tokens are computed twice, or left out"
            sequence.num_computed_tokens = past + tokens
            if sequence.num_computed_tokens == sequence.num_tokens:
                sequence.num_tokens += 1
                self.decoding.add(sequence.index)
        self.state.allocator.check_invariants()
        return [(item.sequence.index, item.num_tokens) for item in self.step.items]

    def finish(self, index: int) -> None:
        """A running sequence ends, as the engine does it."""
        state = self.state
        sequence = next(one for one in state.running if one.index == index)
        state.running.remove(sequence)
        if self.step.ends_together:
            state.ended.append(sequence)
        else:
            state.allocator.release(sequence)
        self.end_batch()

    def end_batch(self) -> None:
        if not self.state.running:
            for sequence in self.state.ended:
                self.state.allocator.release(sequence)
            self.state.ended.clear()


def test_every_batching_is_in_the_suite() -> None:
    assert {kind.batching for kind in KINDS.values()} == set(BATCHING.builtins)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
class TestEveryBatching:
    def test_is_found_under_its_name(self, kind: Kind) -> None:
        assert Calls(kind).batching.name == kind.batching

    def test_nothing_to_do_is_an_empty_step(self, kind: Kind) -> None:
        calls = Calls(kind)
        assert calls.call() == []
        step = calls.step
        assert (step.admitted, step.preempted, step.dropped) == ([], [], [])
        assert step.waits_for is None

    def test_who_arrives_waits_goes_first_or_joins(self, kind: Kind) -> None:
        calls = Calls(kind, 6, 4)
        assert calls.call() == [(0, 6), (1, 4)]
        calls.arrive(2, 3)
        second = calls.call()
        if kind.mixes:
            assert second == [(0, 1), (1, 1), (2, 3)]
            assert calls.call() == [(0, 1), (1, 1), (2, 1)]
        elif kind.joins:
            assert second == [(2, 3)]
            assert calls.call() == [(0, 1), (1, 1), (2, 1)]
        else:
            assert second == [(0, 1), (1, 1)]
            assert calls.step.waits_for == "admission rule"

    def test_a_seat_is_waited_for_and_taken_when_free(self, kind: Kind) -> None:
        calls = Calls(kind, 3, 4, 5, max_num_seqs=2)
        assert calls.call() == [(0, 3), (1, 4)]
        assert calls.step.waits_for == "max_num_seqs"
        calls.finish(0)
        if not kind.joins:
            assert calls.call() == [(1, 1)]
            calls.finish(1)
        assert (2, 5) in calls.call()
        assert calls.step.waits_for is None

    def test_only_the_head_is_tried(self, kind: Kind) -> None:
        rules: dict[str, Any] = {"num_gpu_blocks": 8, "max_num_batched_tokens": 40}
        calls = Calls(kind, 12, 17, 2, max_tokens=4, **rules)
        assert calls.call()[0] == (0, 12)
        assert [sequence.index for sequence in calls.state.waiting] == [1, 2]
        assert calls.step.waits_for in {"blocks", "admission rule"}

    def test_a_running_sequence_that_lacks_memory(self, kind: Kind) -> None:
        rules: dict[str, Any] = {
            "num_gpu_blocks": 8,
            "batching__clip_max_new_tokens": 1,
            "batching__watermark": 0.0,
        }
        calls = Calls(kind, 8, 8, max_tokens=1 if kind.preempts else 7, **rules)
        assert calls.call() == ([(0, 8), (1, 8)] if kind.preempts else [(0, 8)])
        if not kind.preempts:  # two of 8 + 7 tokens are 8 blocks, and there are 7
            return
        for _ in range(5):
            assert not calls.step.preempted
            calls.call()
        assert [victim.sequence.index for victim in calls.step.preempted] == [1]
        assert (calls.step.admitted, calls.step.waits_for) == ([], "blocks")

    def test_reservations_are_never_outgrown(self, kind: Kind) -> None:
        if not kind.reserves:
            pytest.skip("counts blocks")
        rules: dict[str, Any] = {
            "allocator__kind": "contiguous",
            "block_size": 1,
            "num_gpu_blocks": 300,
        }
        calls = Calls(
            kind, 9, 9, 9, allocator__placement="first-fit", **rules, batching__watermark=0.0
        )
        for _ in range(60):
            calls.call()
            assert not calls.step.preempted
        assert len(calls.state.running) == 3
        calls.arrive(3, 1)
        assert len(calls.call()) == 3
        assert calls.step.waits_for == ("blocks" if kind.joins else "admission rule")

    @given(
        lengths=st.lists(
            st.tuples(st.integers(1, 16), st.integers(1, 12), st.integers(0, 6)), max_size=10
        ),
        seats=st.integers(1, 4),
        blocks=st.integers(9, 20),
        block_size=st.sampled_from([1, 2, 4]),
    )
    def test_random_runs(
        self,
        kind: Kind,
        lengths: list[tuple[int, int, int]],
        seats: int,
        blocks: int,
        block_size: int,
    ) -> None:
        """Prompt, output, and what the client allows beyond it; arrivals one a call."""
        calls = Calls(
            kind,
            max_num_seqs=seats,
            num_gpu_blocks=1 + blocks * 4 // block_size,
            block_size=block_size,
        )
        state, left = calls.state, set(range(len(lengths)))
        arriving = list(enumerate(lengths))
        for _ in range(1000):
            if arriving:
                index, (prompt, output, more) = arriving.pop(0)
                calls.arrive(index, prompt, output + more)
            queue, ran = [one.index for one in state.waiting], len(state.running)
            served = calls.call()
            self.check(kind, calls, queue, ran)
            left -= {dropped.sequence.index for dropped in calls.step.dropped}
            for index, _ in served:
                sequence = next(one for one in state.running if one.index == index)
                if sequence.num_tokens - sequence.prompt_tokens == lengths[index][1]:
                    calls.finish(index)
                    left.remove(index)
            calls.end_batch()
            if not served and not calls.step.preempted and not arriving:
                if not len(state.waiting):
                    break
                left.remove(state.waiting.pop().index)  # alone, and still it does not fit
        assert not left, "not everything that was admitted ended"
        assert state.allocator.num_spare == calls.config.usable_blocks

    def check(self, kind: Kind, calls: Calls, queue: list[int], ran: int) -> None:
        """What is true of any step."""
        step, state, config = calls.step, calls.state, calls.config
        indices = [item.sequence.index for item in step.items]
        assert len(set(indices)) == len(indices)
        assert set(indices) <= {one.index for one in state.running}
        assert len(state.running) + len(state.ended) <= config.max_num_seqs
        assert all(item.num_tokens > 0 for item in step.items)
        if kind.has_budget and True in calls.phases and kind.mixes:
            assert step.num_tokens <= config.max_num_batched_tokens
        entered = [admission.sequence.index for admission in step.admitted]
        entered += [dropped.sequence.index for dropped in step.dropped]
        assert set(entered) == set(queue[: len(entered)]), "the head was passed over"
        assert kind.mixes or len(calls.phases) <= 1, "prompts and decodes in one step"
        assert kind.joins or not (ran and step.admitted), "somebody joined a static batch"
        assert kind.preempts or not step.preempted
        assert state.allocator.num_spare >= 0
        assert (step.waits_for is None) == (not len(state.waiting))


def test_iteration_level_has_no_budget_and_no_chunks() -> None:
    kind = KINDS["iteration-level"]
    calls = Calls(kind, 40, 30, batching__long_prefill_token_threshold=4)
    assert calls.call() == [(0, 40), (1, 30)]
    calls.arrive(2, 50)
    assert calls.call() == [(0, 1), (1, 1), (2, 50)]
    assert calls.step.waits_for is None
    assert Calls(KINDS["mixed-running-first"], 40, 30).call() == [(0, 16)]
