"""Paged allocator: hits, what an admission needs, growth, windows and the keys they keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.scheduler_config import KVGroup
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

CONFIG = engine_config(
    block_size=4,
    num_gpu_blocks=11,
    max_num_batched_tokens=16,
    retention__prefix_cache_retention_interval=None,
)


def make_sequence(index: int, prompt_tokens: int, public: str = "") -> Sequence:
    """A sequence whose leading blocks of 4 tokens are named by all letters of ``public`` so far."""
    ends = range(1, len(public) + 1)
    names = [(-int.from_bytes(public[:end].encode()), 4 * end) for end in ends]
    return Sequence(index, f"r{index}", 0, prompt_tokens, 50, 0, names)


def enter(allocator: PagedAllocator, sequence: Sequence, tokens: int | None = None) -> int:
    """Admit with ``tokens`` new tokens (all by default); returns the hit."""
    hit = allocator.find_hit(sequence)
    tokens = sequence.num_tokens - hit.tokens if tokens is None else tokens
    allocator.admit(sequence, hit, tokens)
    sequence.num_computed_tokens = hit.tokens + tokens
    return hit.tokens


def table(allocator: PagedAllocator, sequence: Sequence, group: int = 0) -> list[int]:
    return [block.id for block in allocator.groups[group].tables[sequence.index]]


def test_a_prompt_takes_the_blocks_of_its_chunk_only() -> None:
    allocator = PagedAllocator(CONFIG)
    sequence = make_sequence(0, prompt_tokens=20)
    enter(allocator, sequence, tokens=6)
    assert table(allocator, sequence) == [1, 2]
    assert allocator.grow(sequence, 2)
    assert table(allocator, sequence) == [1, 2]  # the second block had room
    sequence.num_computed_tokens += 2
    assert allocator.grow(sequence, 1)
    assert table(allocator, sequence) == [1, 2, 3]
    allocator.check_invariants()


def test_blocks_are_hit_in_the_call_that_fills_them() -> None:
    allocator = PagedAllocator(CONFIG)
    enter(allocator, make_sequence(0, 9, "ab"))
    second = make_sequence(1, 11, "abc")
    assert enter(allocator, second) == 8
    assert table(allocator, second) == [1, 2, 4]


def test_the_last_block_of_a_whole_hit_is_computed_again_as_a_duplicate() -> None:
    allocator = PagedAllocator(CONFIG)
    enter(allocator, make_sequence(0, 8, "ab"))
    second = make_sequence(1, 8, "ab")
    assert enter(allocator, second) == 4
    assert table(allocator, second) == [1, 3]
    assert allocator.pool.num_duplicates == 1


def test_a_hit_ends_at_the_first_block_that_is_missing() -> None:
    allocator = PagedAllocator(CONFIG)
    enter(allocator, make_sequence(0, 12, "abc"))
    assert allocator.find_hit(make_sequence(1, 16, "axc")).tokens == 4
    assert allocator.find_hit(make_sequence(1, 16, "xbc")).tokens == 0


def test_finding_a_hit_changes_nothing() -> None:
    allocator = PagedAllocator(CONFIG)
    first = make_sequence(0, 12, "abc")
    enter(allocator, first)
    allocator.release(first)
    before = [block.id for block in allocator.pool.free_queue]
    assert allocator.find_hit(make_sequence(1, 20, "abc")).tokens == 12
    assert [block.id for block in allocator.pool.free_queue] == before


def test_without_caching_nothing_is_hit_and_blocks_return_to_the_front() -> None:
    allocator = PagedAllocator(replace(CONFIG, enable_prefix_caching=False))
    first = make_sequence(0, 12, "abc")
    enter(allocator, first)
    assert allocator.find_hit(make_sequence(1, 20, "abc")).tokens == 0
    allocator.release(first)
    assert [block.id for block in allocator.pool.free_queue][:4] == [3, 2, 1, 4]


def test_growth_that_fails_takes_nothing() -> None:
    allocator = PagedAllocator(replace(CONFIG, num_gpu_blocks=4))
    first, second = make_sequence(0, 8), make_sequence(1, 4)
    enter(allocator, first)
    enter(allocator, second)
    assert not allocator.grow(first, 1)
    assert table(allocator, first) == [1, 2]
    allocator.release(second)
    assert allocator.grow(first, 1)


def refusal(
    allocator: PagedAllocator, sequence: Sequence, tokens: int, *, idle: bool = False
) -> str | None:
    return allocator.refusal(sequence, allocator.find_hit(sequence), tokens, idle=idle)


def test_why_a_sequence_cannot_enter() -> None:
    allocator = PagedAllocator(CONFIG)  # 10 blocks
    enter(allocator, make_sequence(0, 16))  # 6 free
    assert refusal(allocator, make_sequence(1, 24), 24) is None
    assert refusal(allocator, make_sequence(1, 25), 25) == "blocks"
    assert refusal(allocator, make_sequence(1, 25), 16) == "admission rule"  # the chunk would fit
    lax = PagedAllocator(engine_config(CONFIG, batching__scheduler_reserve_full_isl=False))
    enter(lax, make_sequence(0, 16))
    assert refusal(lax, make_sequence(1, 25), 16) is None


def test_the_watermark_is_kept_unless_nothing_runs() -> None:
    allocator = PagedAllocator(
        engine_config(CONFIG, batching__watermark=0.19)
    )  # int(0.19 * 11) = 2 blocks
    assert refusal(allocator, make_sequence(1, 40), 16, idle=True) is None
    assert refusal(allocator, make_sequence(1, 40), 16) == "admission rule"
    assert refusal(allocator, make_sequence(1, 32), 16) is None


def test_hit_blocks_that_nobody_holds_are_needed_too() -> None:
    allocator = PagedAllocator(replace(CONFIG, num_gpu_blocks=6))  # 5 blocks
    first = make_sequence(0, 12, "abc")
    enter(allocator, first)
    again = make_sequence(1, 20, "abc")
    assert refusal(allocator, again, 8) is None  # 3 shared, 2 new, 2 free
    longer = make_sequence(1, 21, "abc")
    assert refusal(allocator, longer, 9) == "blocks"
    allocator.release(first)
    assert refusal(allocator, again, 8) is None  # 3 of the 5 free ones are its own
    assert refusal(allocator, longer, 9) == "blocks"


def test_blocks_that_fall_out_of_a_window_are_given_up() -> None:
    allocator = PagedAllocator(replace(CONFIG, kv_groups=(KVGroup(sliding_window=6),)))
    sequence = make_sequence(0, 12)
    enter(allocator, sequence)
    assert table(allocator, sequence) == [1, 2, 3]
    assert allocator.grow(sequence, 1)  # 12 - 6 + 1 = 7 tokens are of no more use
    assert table(allocator, sequence) == [0, 2, 3, 4]
    sequence.num_computed_tokens += 1
    assert allocator.grow(sequence, 1)
    assert table(allocator, sequence) == [0, 0, 3, 4]
    assert allocator.num_held(sequence) == 2
    allocator.check_invariants()


def test_tokens_in_flight_keep_their_window() -> None:
    allocator = PagedAllocator(replace(CONFIG, kv_groups=(KVGroup(sliding_window=6),)))
    sequence = make_sequence(0, 12)
    enter(allocator, sequence)
    sequence.in_flight = 4
    assert allocator.grow(sequence, 1)
    assert table(allocator, sequence) == [1, 2, 3, 4]


def test_a_window_needs_only_the_last_blocks_of_a_hit() -> None:
    allocator = PagedAllocator(replace(CONFIG, kv_groups=(KVGroup(sliding_window=5),)))
    first = make_sequence(0, 16, "abcd")
    enter(allocator, first)
    allocator.release(first)
    allocator.pool.take(7)  # 6 blocks without a key and the oldest cached one: the tail
    second = make_sequence(1, 17, "abcd")
    hit = allocator.find_hit(second)
    assert hit.tokens == 12
    allocator.admit(second, hit, 5)
    assert table(allocator, second)[:2] == [0, 0]  # out of the window: not even referenced
    assert table(allocator, second)[2] == 3


def test_groups_share_the_pool_and_lower_the_hit_in_turn() -> None:
    hybrid = replace(CONFIG, kv_groups=(KVGroup(), KVGroup(sliding_window=5)))
    allocator = PagedAllocator(hybrid)
    first = make_sequence(0, 12, "abc")
    enter(allocator, first)
    assert (table(allocator, first, 0), table(allocator, first, 1)) == ([1, 2, 3], [4, 5, 6])
    window = allocator.groups[1].tables[0]
    allocator.pool.index.pop((1, first.block_key(2, 4)))  # as if it had been evicted
    window[2].key = None
    hit = allocator.find_hit(make_sequence(1, 16, "abc"))
    assert (hit.tokens, hit.longest_tokens) == (8, 12)
    assert [len(blocks) for blocks in hit.blocks] == [2, 2]


def keys_of(allocator: PagedAllocator, group: int = 0) -> list[int]:
    """Numbers of the blocks of sequence 0 that have a key."""
    blocks = allocator.groups[group].tables[0]
    return [number for number, block in enumerate(blocks) if block.key is not None]


@pytest.mark.parametrize(
    ("window", "interval", "kept"),
    [
        (5, None, [0, 1, 2, 3]),
        (5, 0, [2]),  # prompt - 1 tokens end in block 3
        (5, 8, [1, 2, 3]),  # and the tails of the intervals [0, 8) and [8, 16)
        (5, 12, [2]),
        (6, 8, [0, 1, 2, 3]),  # a tail of two blocks is the whole interval
        (1, None, []),  # the next token attends to itself alone
        (1, 8, []),
    ],
)
def test_retention_keeps_what_a_hit_looks_at(
    window: int, interval: int | None, kept: list[int]
) -> None:
    config = engine_config(
        CONFIG,
        kv_groups=(KVGroup(sliding_window=window),),
        retention__prefix_cache_retention_interval=interval,
    )
    allocator = PagedAllocator(config)
    enter(allocator, make_sequence(0, 16, "abcd"))
    assert keys_of(allocator) == kept


def test_groups_take_blocks_in_their_order_but_full_attention_is_looked_up_first() -> None:
    config = engine_config(
        CONFIG,
        kv_groups=(KVGroup(sliding_window=5), KVGroup()),
        retention__prefix_cache_retention_interval=0,
    )
    allocator = PagedAllocator(config)
    first = make_sequence(0, 9, "ab")
    enter(allocator, first)
    assert (table(allocator, first, 0), table(allocator, first, 1)) == ([1, 2, 3], [4, 5, 6])
    assert (keys_of(allocator, 0), keys_of(allocator, 1)) == ([1], [0, 1])
    hit = allocator.find_hit(make_sequence(1, 8, "ab"))
    assert (hit.tokens, hit.longest_tokens) == (0, 4)
    allocator.release(first)
    assert [block.id for block in allocator.pool.free_queue][-3:] == [2, 5, 4]


def test_a_lone_group_and_groups_alike_have_no_junction() -> None:
    for windows in ([5], [5, 5], [None, None]):
        groups = tuple(map(KVGroup, windows))
        allocator = PagedAllocator(replace(CONFIG, kv_groups=groups, num_gpu_blocks=20))
        enter(allocator, make_sequence(0, 9, "ab"))
        last = len(windows) - 1
        block = allocator.groups[last].tables[0][1]
        allocator.pool.index.pop(block.key)  # one of them has lost its second block
        block.key = None
        hit = allocator.find_hit(make_sequence(1, 13, "abc"))
        assert (hit.tokens, hit.longest_tokens) == (4, 4)


def test_windows_that_differ_have_a_junction_where_the_first_ends() -> None:
    config = engine_config(
        CONFIG,
        kv_groups=(KVGroup(5), KVGroup(9)),
        retention__prefix_cache_retention_interval=8,
    )
    allocator = PagedAllocator(config)
    enter(allocator, make_sequence(0, 9, "ab"))
    assert (keys_of(allocator, 0), keys_of(allocator, 1)) == ([1], [0, 1])
    block = allocator.groups[1].tables[0][0]
    allocator.pool.index.pop(block.key)
    block.key = None
    hit = allocator.find_hit(make_sequence(1, 13, "abc"))
    assert (hit.tokens, hit.longest_tokens) == (0, 8)


def test_a_table_that_holds_a_free_block_is_seen() -> None:
    allocator = PagedAllocator(CONFIG)
    sequence = make_sequence(0, 8)
    enter(allocator, sequence)
    allocator.pool.release(allocator.groups[0].tables[0])
    with pytest.raises(AssertionError, match="is held but free"):
        allocator.check_invariants()
