"""Curves and replays against caches written plainly, over made-up traces."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvsim.traces import PrefixIds, Trace, TraceError
from kvsim.traces.reuse import POLICIES, Reuse, measure_reuse, replay

if TYPE_CHECKING:
    from types import ModuleType

BLOCK = 4


def _naive() -> ModuleType:
    spec = importlib.util.spec_from_file_location("naive", Path(__file__).with_name("naive.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


naive: Any = _naive()


def make_trace(
    requests: list[list[int]], prompts: list[int] | None = None, *, covers_output: bool = False
) -> Trace:
    if prompts is None:
        prompts = [BLOCK * len(request) or 1 for request in requests]
    return Trace(
        name="made-up",
        arrival_ns=np.arange(len(requests), dtype=np.int64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.ones(len(requests), dtype=np.int64),
        prefix=PrefixIds(
            block_size=BLOCK,
            offsets=np.cumsum([0, *map(len, requests)]).astype(np.int64),
            ids=np.array([block for request in requests for block in request], dtype=np.int64),
            covers_output=covers_output,
        ),
    )


def per_request(reuse: Reuse, hit: Any) -> list[list[bool]]:
    return [hit[start:end].tolist() for start, end in pairwise(reuse.accesses.offsets.tolist())]


some_ids = st.lists(st.integers(0, 5), max_size=6)
all_requests = st.lists(some_ids, min_size=1, max_size=14).filter(any)
capacities = st.integers(1, 12)
# requests longer than the cache, ids repeated inside a request, ids with several predecessors
long_ones = [[0, 1, 2, 3], [0, 1], [0, 4, 4, 5], [2, 1], [0, 1, 2, 3], [0, 4, 4]]


@given(all_requests)
@example(long_ones)
def test_the_tree_curve_is_leaf_lru_at_every_capacity(requests: list[list[int]]) -> None:
    reuse = measure_reuse(make_trace(requests))
    for capacity in range(1, 30):
        hits = naive.tree(requests, capacity, "lru")
        assert reuse.curve.at(capacity).blocks == sum(map(sum, hits))


@given(all_requests)
@example(long_ones)
def test_the_plain_curve_is_lru_at_every_capacity(requests: list[list[int]]) -> None:
    reuse = measure_reuse(make_trace(requests), "plain")
    for capacity in range(1, 8):
        hits = naive.plain(requests, capacity, "lru")
        assert reuse.curve.at(capacity).blocks == sum(map(sum, hits))


@pytest.mark.parametrize("policy", ["lru", "lfu", "optimal"])
@given(all_requests, capacities)
@example(long_ones, 2)
def test_leaf_policies_on_the_tree(policy: str, requests: list[list[int]], capacity: int) -> None:
    reuse = measure_reuse(make_trace(requests))
    hit = replay(reuse.accesses, "tree", policy, capacity)
    assert per_request(reuse, hit) == naive.tree(requests, capacity, policy)


@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu"])
@given(all_requests, capacities)
@example(long_ones, 2)
def test_plain_policies(policy: str, requests: list[list[int]], capacity: int) -> None:
    reuse = measure_reuse(make_trace(requests), "plain")
    hit = replay(reuse.accesses, "plain", policy, capacity)
    assert per_request(reuse, hit) == naive.plain(requests, capacity, policy)


@pytest.mark.parametrize("policy", ["fifo", "sieve", "s3-fifo"])
@given(all_requests, st.integers(1, 25))
@example(long_ones, 2)
def test_queues(policy: str, requests: list[list[int]], capacity: int) -> None:
    store = {"fifo": naive.Fifo, "sieve": naive.Sieve, "s3-fifo": naive.S3Fifo}[policy]
    trace = make_trace(requests)
    plain, tree = measure_reuse(trace, "plain"), measure_reuse(trace, "tree")
    hit = replay(plain.accesses, "plain", policy, capacity)
    assert per_request(plain, hit) == naive.queue_plain(requests, store(capacity))
    hit = replay(tree.accesses, "tree", policy, capacity)
    assert per_request(tree, hit) == naive.queue_on_tree(requests, store(capacity))


@given(all_requests, capacities)
def test_furthest_next_use_is_a_bound(requests: list[list[int]], capacity: int) -> None:
    """It hits at least as often as every policy, and as often as Belady's rule written plainly."""
    for definition in ("plain", "tree"):
        reuse = measure_reuse(make_trace(requests), definition)
        most = reuse.replayed("optimal", capacity).blocks
        assert all(reuse.replayed(policy, capacity).blocks <= most for policy in POLICIES)
        assert most <= reuse.curve.at(10**9).blocks
    plainly = sum(map(sum, naive.plain(requests, capacity, "optimal")))
    plain = measure_reuse(make_trace(requests), "plain")
    assert plain.replayed("optimal", capacity).blocks == plainly


@given(all_requests, st.data())
def test_window_and_weights(requests: list[list[int]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(requests) - 1))
    end = data.draw(st.integers(first + 1, len(requests)))
    prompts = [
        data.draw(st.integers(max(1, BLOCK * (len(request) - 1) + 1), BLOCK * len(request) + 3))
        for request in requests
    ]
    reuse = measure_reuse(make_trace(requests, prompts), first=first, end=end)
    capacity = data.draw(capacities)
    hits = naive.tree(requests, capacity, "lru")
    tokens = sum(
        min(BLOCK * sum(hits[index]), prompts[index]) for index in range(first, end)
    )  # the last block weighs its remaining tokens
    counted = reuse.curve.at(capacity)
    assert (counted.blocks, counted.tokens) == (sum(map(sum, hits[first:end])), tokens)
    assert counted.all_blocks == sum(map(len, requests[first:end]))
    assert counted.all_tokens == sum(prompts[first:end])


@given(all_requests)
def test_the_ceiling(requests: list[list[int]]) -> None:
    """No block repeated inside a request counts for it; leading runs are those of the tree."""
    reuse = measure_reuse(make_trace(requests))
    seen: set[tuple[int, ...]] = set()
    hits = []
    for request in requests:
        nodes = naive.chains(request)
        hits.append(sum(node in seen for node in nodes))
        seen.update(nodes)
    ceiling = reuse.ceiling
    assert ceiling.blocks_seen_before == ceiling.blocks_in_leading_run == sum(hits)
    assert ceiling.requests_with_a_hit == sum(map(bool, hits))
    assert ceiling.unique_blocks == len(seen)
    assert reuse.curve.at(reuse.curve.largest_useful).blocks == sum(hits)


def test_the_plain_ceiling_tells_anywhere_from_leading() -> None:
    ceiling = measure_reuse(make_trace([[1, 2, 3], [1, 9, 3, 3]]), "plain").ceiling
    assert ceiling.blocks_seen_before == 3  # 1, 3, 3
    assert ceiling.blocks_in_leading_run == 1
    assert ceiling.requests_fully_cached == 0


def test_blocks_of_answers_are_left_behind_but_not_looked_up() -> None:
    """Turn 2 finds turn 1's answer; its own last prompt block holds answer tokens too."""
    trace = make_trace([[1, 2, 3], [1, 2, 3, 4, 5]], [6, 14], covers_output=True)
    reuse = measure_reuse(trace)
    assert reuse.accesses.num_lookups.tolist() == [1, 3]
    hits = reuse.curve.at(10)
    assert (hits.blocks, hits.all_blocks, hits.tokens, hits.all_tokens) == (3, 4, 12, 20)


def test_tokens_without_an_id_count_as_prompt_only() -> None:
    trace = make_trace([[1, 2], [1, 2]], [11, 11])
    hits = measure_reuse(trace, first=1).curve.at(2)
    assert (hits.tokens, hits.all_tokens, hits.block_ratio) == (8, 11, 1.0)
    assert hits.ratio("tokens") == 8 / 11


def test_errors_are_one_sentence() -> None:
    trace = make_trace([[1], [1]])
    with pytest.raises(TraceError, match=r"'radix' is unknown; choices: tree, plain"):
        measure_reuse(trace, "radix")
    with pytest.raises(TraceError, match="of 2 requests those from 2 to before 2"):
        measure_reuse(trace, first=2)
    reuse = measure_reuse(trace)
    with pytest.raises(TraceError, match="'clock' is unknown; choices: lru"):
        reuse.replayed("clock", 1)
    with pytest.raises(TraceError, match="capacity 0 is too small"):
        reuse.replayed("fifo", 0)
    trace.prefix = None
    with pytest.raises(TraceError, match="has no prefix ids"):
        measure_reuse(trace)


def test_capacities_end_where_all_is_gained() -> None:
    reuse = measure_reuse(make_trace([[1, 2, 3, 4, 5, 6], [7], [1, 2, 3, 4, 5, 6]]))
    assert reuse.curve.largest_useful == 7
    assert reuse.capacities() == [1, 2, 5, 10]
    assert measure_reuse(make_trace([[1], [2]])).capacities() == [1]
