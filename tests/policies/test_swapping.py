"""Swapping in single scheduling calls, decided by hand; blocks that are shared are copied."""

from __future__ import annotations

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.batching import BATCHING, ScheduledStep, SchedulerState
from kvsim.policies.batching.swapping import forget_swapped, preempt, swap_in_all
from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import MODES, VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config


class Calls:
    """A state and its scheduling calls; each is followed by its results."""

    def __init__(
        self, *prompts: int, keys: tuple[tuple[int, int], ...] = (), **rules: object
    ) -> None:
        defaults = {
            "block_size": 4,
            "max_num_batched_tokens": 40,
            "num_gpu_blocks": 6,
            "enable_prefix_caching": False,
            "retention__prefix_cache_retention_interval": None,
            "preemption__mode": "swap",
            "num_host_blocks": 10,
        }
        self.config = engine_config(**(defaults | rules))
        context = PolicyContext(self.config)
        self.allocator = PagedAllocator(self.config)
        self.state = SchedulerState(
            context,
            self.allocator,
            build(QUEUE_ORDERS.find(self.config.queue.policy), context),
            VICTIMS.find(self.config.preemption.victim),
            MODES[self.config.preemption.mode](context),
        )
        self.batching = build(BATCHING.find(self.config.batching.policy), context)
        self.step = ScheduledStep()
        for index, prompt in enumerate(prompts):
            self.arrive(index, prompt, keys)

    def arrive(self, index: int, prompt: int, keys: tuple[tuple[int, int], ...] = ()) -> None:
        self.state.waiting.push(Sequence(index, f"r{index}", index, prompt, 50, 0, keys))

    def call(self) -> list[tuple[int, int]]:
        """One call: (index, tokens) in order. Afterwards tokens are computed and sampled."""
        self.step = self.batching.compose(self.state)
        for sequence, tokens, past in self.step.items:
            sequence.num_computed_tokens = past + tokens
            if sequence.num_computed_tokens == sequence.num_tokens:
                sequence.num_tokens += 1
        self.allocator.check_invariants()
        self.state.mode.host.check_invariants()
        return [(item.sequence.index, item.num_tokens) for item in self.step.items]

    def finish(self, index: int) -> None:
        sequence = next(s for s in self.state.running if s.index == index)
        self.state.running.remove(sequence)
        self.allocator.release(sequence)

    def out(self) -> list[tuple[int, int]]:
        """Who was put out in this call, and blocks that went to the host."""
        return [(p.sequence.index, p.swapped_blocks) for p in self.step.preempted]

    def back(self) -> list[tuple[int, int]]:
        return [(s.sequence.index, s.num_blocks) for s in self.step.swapped_in]


def test_a_victim_keeps_its_tokens_and_comes_back_before_anybody_new() -> None:
    calls = Calls(12, 8)
    assert calls.call() == [(0, 12), (1, 8)]  # all 5 blocks
    calls.arrive(2, 1)
    assert calls.call() == [(0, 1)]  # r0 begins a block: r1 leaves
    assert calls.out() == [(1, 2)]
    assert calls.step.waits_for == "blocks"
    (victim,) = calls.state.swapped
    assert (victim.num_computed_tokens, victim.num_tokens, victim.num_preemptions) == (8, 9, 1)
    assert calls.state.mode.host.num_used == 2
    assert calls.call() == [(0, 1)]  # 1 block is free, r1 needs 3, r2 only 1
    assert calls.step.waits_for == "blocks"
    assert [s.index for s in calls.state.waiting] == [2]
    calls.finish(0)
    assert calls.call() == [(1, 1), (2, 1)]  # r1 goes on where it was, and then r2
    assert calls.back() == [(1, 2)]
    assert calls.state.mode.host.num_used == 0
    assert [a.sequence.index for a in calls.step.admitted] == [2]
    assert calls.step.waits_for is None


def test_first_out_first_back_and_only_the_first_is_tried() -> None:
    calls = Calls(8, 4, 4, num_gpu_blocks=5)
    assert calls.call() == [(0, 8), (1, 4), (2, 4)]
    assert calls.call() == [(0, 1)]  # r0 takes r2's block, nobody gives r1 one: it leaves, too
    assert calls.out() == [(2, 1), (1, 1)]
    for _ in range(3):
        assert calls.call() == [(0, 1)]  # 1 block is free; each needs 2
    assert [s.index for s in calls.state.swapped] == [2, 1]
    calls.finish(0)
    assert calls.call() == [(2, 1), (1, 1)]
    assert [s.index for s in calls.state.running] == [2, 1]


def test_a_full_host_means_recompute() -> None:
    calls = Calls(12, 8, num_host_blocks=1)
    calls.call()
    assert calls.call() == [(0, 1)]
    assert calls.out() == [(1, 0)]
    assert calls.state.mode.num_host_full == 1
    assert not calls.state.swapped
    assert calls.state.waiting.head().num_computed_tokens == 0


def test_seats_and_budget_hold_for_those_that_return() -> None:
    calls = Calls(12, 8)
    calls.call()
    calls.call()
    calls.finish(0)
    step = ScheduledStep()
    assert swap_in_all(calls.state, step, lambda _: 1, 0) == 0
    assert step.waits_for == "token_budget"
    calls.state.context = PolicyContext(SchedulerConfig(max_num_seqs=1))
    calls.state.running.append(Sequence(9, "r9", 0, 1, 1, 0, ()))
    assert swap_in_all(calls.state, step, lambda _: 1, 5) == 5
    assert step.waits_for == "max_num_seqs"
    calls.state.running.clear()
    assert swap_in_all(calls.state, step, lambda _: 3, 5) == 2
    assert step.waits_for is None


def test_the_watermark_holds_for_those_that_return_unless_nobody_runs() -> None:
    calls = Calls(4, num_gpu_blocks=7, batching__watermark=0.3)  # 6 usable, 2 of them kept
    assert calls.call() == [(0, 4)]
    victim = calls.state.running.pop()
    preempt(calls.state, calls.step, victim)
    refusal = calls.allocator.swap_in_refusal
    assert refusal(victim, 12, idle=False) is None  # 4 blocks
    assert refusal(victim, 13, idle=False) == "admission rule"
    assert refusal(victim, 13, idle=True) is None
    assert refusal(victim, 21, idle=True) == "blocks"
    assert swap_in_all(calls.state, calls.step, lambda _: 13, 40, idle_too=True) == 40
    assert calls.step.waits_for == "admission rule"
    assert swap_in_all(calls.state, calls.step, lambda _: 13, 40) == 27


def test_who_preempts_itself_is_swapped_and_comes_back_alone() -> None:
    calls = Calls(8, 8)
    assert calls.call() == [(0, 8), (1, 8)]
    assert calls.call() == [(0, 1)]  # the last free block; r1 lacks one and leaves
    assert calls.out() == [(1, 2)]
    assert calls.call() == [(0, 1)]  # 2 are free, r1 needs 3
    calls.finish(0)
    assert calls.call() == [(1, 1)]


def test_shared_blocks_are_copied_and_are_duplicates_afterwards() -> None:
    keys = ((-1, 8),)  # two blocks of four tokens
    calls = Calls(9, 9, keys=keys, num_gpu_blocks=8, enable_prefix_caching=True)
    assert calls.call() == [(0, 9), (1, 1)]
    tables = calls.allocator.groups[0].tables
    shared = tables[0][:2]
    assert tables[1][:2] == shared
    assert [block.ref_count for block in shared] == [2, 2]

    victim = calls.state.running.pop()
    step = ScheduledStep()
    preempt(calls.state, step, victim)
    assert step.preempted[0].swapped_blocks == 3  # the shared ones as well
    assert [block.ref_count for block in shared] == [1, 1]
    assert calls.allocator.pool.num_duplicates == 0
    assert tables.keys() == {0}

    assert swap_in_all(calls.state, step, lambda _: 1, 5) == 4
    assert step.swapped_in[0].hit_tokens == 8, "the cache would have had them; it is not asked"
    assert [block.ref_count for block in shared] == [1, 1]
    assert not set(tables[1]) & set(shared)
    assert [block.key for block in tables[1][:2]] == [block.key for block in shared]
    assert calls.allocator.pool.num_duplicates == 2
    calls.allocator.check_invariants()


def test_a_window_comes_back_without_what_fell_out_of_it() -> None:
    groups = (KVGroup(), KVGroup(sliding_window=5))
    calls = Calls(20, num_gpu_blocks=14, kv_groups=groups)
    assert calls.call() == [(0, 20)]
    assert calls.call() == [(0, 1)]  # 6 blocks each; 4 of the window's have fallen out

    def nulls() -> list[list[bool]]:
        null = calls.allocator.pool.null
        return [[block is null for block in group.tables[0]] for group in calls.allocator.groups]

    victim = calls.state.running.pop()
    held = nulls()
    assert held == [[False] * 6, [True] * 4 + [False] * 2]
    preempt(calls.state, calls.step, victim)
    assert calls.out() == [(0, 8)]
    assert calls.allocator.pool.num_free == 13
    assert calls.call() == [(0, 1)]
    assert nulls() == held
    assert calls.allocator.pool.num_free == 5


def test_who_does_not_come_back_is_forgotten() -> None:
    calls = Calls(12, 8)
    calls.call()
    calls.call()
    victim = calls.state.swapped.popleft()
    forget_swapped(calls.state, victim)
    assert calls.state.mode.host.num_used == 0
    calls.finish(0)
    calls.arrive(1, 8)  # the same number again
    assert calls.call() == [(1, 8)]


def test_a_prompt_goes_on_where_its_chunks_ended() -> None:
    calls = Calls(4, 16, max_num_batched_tokens=12)
    assert calls.call() == [(0, 4), (1, 8)]
    assert calls.call() == [(0, 1)]  # 1 block is left, r1's next chunk needs 2
    assert calls.out() == [(1, 2)]
    calls.finish(0)
    assert calls.call() == [(1, 8)]
    assert calls.step.items[0].past == 8
