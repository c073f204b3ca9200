"""A pool of tokens around the tree: what a request takes, publishes and gives back."""

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

from kvsim.policies.allocators.radix_cache import Lease, RadixCache
from kvsim.policies.token_run import TokenRun


def run(text: str) -> TokenRun:
    return TokenRun.of(tuple(map(ord, text)))


def sizes(cache: RadixCache) -> tuple[int, int, int]:
    cache.check_invariants()
    return cache.num_free, cache.tree.num_evictable, cache.tree.num_protected


def serve(cache: RadixCache, prompt: str, answer: str) -> int:
    """One request from start to end; its hit."""
    admission = cache.start(run(prompt), len(prompt) + len(answer))
    assert admission.lease is not None
    cache.publish(admission.lease, run(prompt))
    cache.finish(admission.lease, run(prompt + answer[:-1]))
    return admission.hit_tokens


def test_a_request_from_start_to_end() -> None:
    cache = RadixCache(32, 4, "lru")
    hit, needed, evicted, lease = cache.start(run("abcdef"), 6 + 4)
    assert (hit, needed, evicted) == (0, 12, [])
    assert sizes(cache) == (20, 0, 0)
    assert lease is not None
    assert cache.publish(lease, run("abcdef")) == 0
    assert sizes(cache) == (20, 0, 4)
    assert cache.finish(lease, run("abcdefwxy")) == 0
    assert sizes(cache) == (24, 8, 0)


@pytest.mark.parametrize(("page_size", "again"), [(1, 7), (4, 4)])
def test_the_last_token_of_a_prompt_is_computed(page_size: int, again: int) -> None:
    cache = RadixCache(64, page_size, "lru")
    assert serve(cache, "abcdefgh", "x") == 0
    assert serve(cache, "abcdefgh", "x") == again


def test_duplicates_come_back() -> None:
    cache = RadixCache(64, 1, "lru")
    first = cache.start(run("abcd"), 6).lease
    second = cache.start(run("abcx"), 6).lease
    assert first is not None
    assert second is not None
    assert sizes(cache) == (64 - 12, 0, 0)
    assert cache.publish(first, run("abcd")) == 0
    assert cache.publish(second, run("abcx")) == 3
    assert sizes(cache) == (64 - 12 + 3, 0, 5)
    assert cache.finish(first, run("abcdy")) == 0
    assert cache.finish(second, run("abcxy")) == 0
    assert sizes(cache) == (64 - 7, 7, 0)


def test_no_room_even_after_eviction() -> None:
    cache = RadixCache(10, 1, "lru")
    serve(cache, "abc", "xy")
    running = cache.start(run("qrs"), 5).lease
    assert running is not None
    assert sizes(cache) == (1, 4, 0)
    admission = cache.start(run("abd"), 9)
    assert admission == (2, 7, [1, 1], None)  # x and c, below the hit
    assert sizes(cache) == (3, 2, 0)


def test_more_than_asked_for_may_go() -> None:
    cache = RadixCache(10, 1, "lru")
    serve(cache, "abcdefgh", "x")
    assert cache.start(run("q"), 3).evicted == [8]


def test_the_highest_priority_of_those_who_use_a_prefix_counts() -> None:
    cache = RadixCache(8, 1, "priority")
    for prompt, priority in (("ab", 1), ("xyz", 0), ("ab", 0)):
        lease = cache.start(run(prompt), len(prompt) + 1, priority).lease
        assert lease is not None
        cache.publish(lease, run(prompt))
        cache.finish(lease, run(prompt))
    assert cache.start(run("q"), 4).evicted == [3]


@pytest.mark.parametrize(("pool_tokens", "page_size"), [(0, 1), (10, 4), (3, 4), (4, 0)])
def test_pools_that_are_no_whole_pages(pool_tokens: int, page_size: int) -> None:
    with pytest.raises(ValueError, match=f"pool_tokens is {pool_tokens}; allowed are multiples"):
        RadixCache(pool_tokens, page_size, "lru")


def test_invariants_see_a_lost_token() -> None:
    cache = RadixCache(10, 1, "lru")
    cache.num_free -= 1
    with pytest.raises(AssertionError, match="add up to 9 tokens, the pool has 10"):
        cache.check_invariants()


IDS = st.lists(st.integers(0, 1), min_size=2, max_size=8).map(tuple)


class CacheUnderRandomUse(RuleBasedStateMachine):
    """Requests start, publish in chunks and end in any order; tokens always add up."""

    @initialize(page_size=st.sampled_from([1, 2, 3]), policy=st.sampled_from(["lru", "slru"]))
    def begin(self, page_size: int, policy: str) -> None:
        self.cache = RadixCache(12 * page_size, page_size, policy)
        self.live: list[tuple[Lease, TokenRun]] = []

    @rule(ids=IDS, num_output=st.integers(1, 3))
    def start(self, ids: tuple[int, ...], num_output: int) -> None:
        whole = TokenRun.of(ids, 2)
        prompt = whole.first(len(whole) - num_output)
        free = self.cache.num_free
        hit, needed, evicted, lease = self.cache.start(prompt, len(whole))
        assert hit < len(prompt)
        assert bool(evicted) <= (needed > free)
        if lease is None:
            assert self.cache.tree.num_evictable <= hit
            assert needed > self.cache.num_free
        else:
            self.live.append((lease, whole))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        lease, whole = data.draw(st.sampled_from(self.live))
        computed = data.draw(st.integers(lease.num_shared, len(whole) - 1))
        assert self.cache.publish(lease, whole.first(max(computed, lease.num_shared))) >= 0

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        lease, whole = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        assert self.cache.finish(lease, whole.first(len(whole) - 1)) >= 0

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "cache"):
            self.cache.check_invariants()
            if not self.live:
                assert self.cache.tree.num_protected == 0


def test_cache_under_random_use() -> None:
    run_state_machine_as_test(CacheUnderRandomUse, settings=settings(stateful_step_count=40))
