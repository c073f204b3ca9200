"""KV groups against rules said by lengths: which hits there are, and which blocks get a key.

The allocator walks over blocks; the twin asks of each length whether the blocks that a hit of it
needs are there, and of each block whether a hit that is kept needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.scheduler_config import KVGroup
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.base import Hit

    Windows = list[int | None]

MODEL_LEN = 48
WINDOWS = st.lists(st.none() | st.integers(1, 14), min_size=1, max_size=4)
MORE = settings(max_examples=max(300, settings().max_examples))


def needed(window: int | None, length: int, block_size: int) -> range:
    """Blocks that the token after ``length`` blocks attends to."""
    if window is None:
        return range(length)
    first = max(length * block_size - (window - 1), 0)
    return range(first // block_size, length)


def lookup(
    windows: Windows, most: int, block_size: int, has: Callable[[int, int], bool]
) -> tuple[int, int]:
    """Blocks of the common hit, and of the hit of the kind that is looked up first."""

    def serves(window: int | None, length: int) -> bool:
        if window == 1:
            return not length  # nothing of it is published, so nothing is found
        alike = [number for number, other in enumerate(windows) if other == window]
        blocks = needed(window, length, block_size)
        return all(has(number, index) for number in alike for index in blocks)

    first = None if None in windows else windows[0]
    common = (n for n in range(most, -1, -1) if all(serves(window, n) for window in windows))
    return next(common), next(n for n in range(most, -1, -1) if serves(first, n))


def make_allocator(windows: Windows, block_size: int, interval: int | None) -> PagedAllocator:
    config = engine_config(
        block_size=block_size,
        num_gpu_blocks=1000,
        max_model_len=MODEL_LEN,
        kv_groups=tuple(map(KVGroup, windows)),
        retention__prefix_cache_retention_interval=interval,
    )
    return PagedAllocator(config)


def publish(allocator: PagedAllocator, number: int, key: object) -> None:
    (block,) = allocator.pool.take(1)
    allocator.pool.set_key(block, (number, key))
    allocator.pool.release([block])


@MORE
@given(
    windows=WINDOWS, block_size=st.integers(1, 6), known=st.integers(1, MODEL_LEN), data=st.data()
)
def test_hits(windows: Windows, block_size: int, known: int, data: st.DataObject) -> None:
    allocator = make_allocator(windows, block_size, None)
    sequence = Sequence(0, "r", 0, known, 50, 0, [])
    places = [
        (number, index)
        for number, window in enumerate(windows)
        for index in range(known // block_size)
        if window != 1
    ]
    lost = data.draw(st.sets(st.sampled_from(places), max_size=6)) if places else set()
    present = set(places) - lost
    for number, index in present:
        publish(allocator, number, sequence.block_key(index, block_size))
    hit: Hit = allocator.find_hit(sequence)
    most = (known - 1) // block_size
    common, first = lookup(windows, most, block_size, lambda *place: place in present)
    assert (hit.tokens, hit.longest_tokens) == (common * block_size, first * block_size)
    for number, (window, blocks) in enumerate(zip(windows, hit.blocks, strict=True)):
        assert len(blocks) == common
        for index in needed(window, common, block_size):
            assert blocks[index].key == (number, sequence.block_key(index, block_size))


@MORE
@given(
    windows=WINDOWS,
    block_size=st.integers(1, 6),
    interval=st.none() | st.integers(0, 4),
    prompt=st.integers(1, MODEL_LEN - 1),
    shared=st.integers(0, 12),
    chunks=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_keys(
    windows: Windows,
    block_size: int,
    interval: int | None,
    prompt: int,
    shared: int,
    chunks: list[int],
) -> None:
    """``shared``: leading blocks that the first kind of group had before, and no other."""
    allocator = make_allocator(
        windows, block_size, None if interval is None else interval * block_size
    )
    sequence = Sequence(0, "r", 0, prompt, 50, 0, [])
    first = None if None in windows else windows[0]
    shared = min(shared, (prompt - 1) // block_size)
    if len(set(windows)) > 1 and first != 1:
        for number in (n for n, window in enumerate(windows) if window == first):
            for index in range(shared):
                publish(allocator, number, sequence.block_key(index, block_size))
    else:
        shared = 0
    before = set(allocator.pool.index)
    hit = allocator.find_hit(sequence)
    new = min(chunks[0], prompt - hit.tokens)
    allocator.admit(sequence, hit, new)
    sequence.num_computed_tokens = hit.tokens + new
    for chunk in chunks[1:]:
        if sequence.num_computed_tokens == sequence.num_tokens:
            sequence.num_tokens += 1
        new = min(
            chunk,
            sequence.num_tokens - sequence.num_computed_tokens,
            MODEL_LEN - sequence.num_computed_tokens,
        )
        assert allocator.grow(sequence, new)
        sequence.num_computed_tokens += new
    ends = {(prompt - 1) // block_size, shared if shared * block_size > hit.tokens else 0}
    if interval is None or interval:
        ends |= set(range(0, MODEL_LEN + 100, interval or 1))
    expected = set(before)
    for number, window in enumerate(windows):
        for index in range(hit.tokens // block_size, sequence.num_computed_tokens // block_size):
            if window is None or any(index in needed(window, end, block_size) for end in ends):
                expected.add((number, sequence.block_key(index, block_size)))
    assert set(allocator.pool.index) == expected
    allocator.check_invariants()
