"""Blocks have equal keys exactly where all tokens up to their end are equal."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.trace.prefix import PrefixPaths, check_block_sizes, shared_prefix_is_lower_bound
from kvsim.traces.trace.trace import PrefixIds

if TYPE_CHECKING:
    from collections.abc import Sequence

ID_TOKENS = 4


def make_ids(*requests: list[int] | str, id_tokens: int = ID_TOKENS) -> PrefixIds:
    """Ids of each request; letters stand for their codes."""
    lists = [[ord(x) if isinstance(x, str) else x for x in request] for request in requests]
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    flat = np.array([number for numbers in lists for number in numbers], dtype=np.int64)
    return PrefixIds(id_tokens, offsets, flat)


def keys(paths: PrefixPaths, index: int) -> list[tuple[int, int]]:
    """(segment, depth) of each block of a path, which must lead from the root without a gap."""
    blocks = [
        (segment, depth)
        for segment in paths.path(index)
        for depth in range(paths.start[segment], paths.end[segment])
    ]
    assert [depth for _, depth in blocks] == list(range(len(blocks)))
    return blocks


def test_a_path_is_short_however_long_the_prompt() -> None:
    ids = make_ids([1] * 1000 + [2] * 500, [1] * 1000 + [3] * 500, [1] * 1000 + [3] * 200)
    paths = PrefixPaths(ids, 3, ID_TOKENS)
    assert [len(paths.path(index)) for index in range(3)] == [2, 2, 2]
    assert paths.path(0)[0] == paths.path(1)[0]
    assert paths.path(1) == paths.path(2)  # one ends inside: the segment stays whole
    assert paths.num_covered(2, 10**9) == 1200


def test_a_prefix_is_the_whole_chain_never_an_id_alone() -> None:
    paths = PrefixPaths(make_ids("ab", "xb"), 2, ID_TOKENS)
    assert not set(keys(paths, 0)) & set(keys(paths, 1))


def test_a_request_that_ends_where_a_later_one_branches_off() -> None:
    paths = PrefixPaths(make_ids("abcd", "ab", "abx", "a", "axy"), 5, ID_TOKENS)
    whole = keys(paths, 0)
    assert keys(paths, 1)[:2] == whole[:2]
    assert keys(paths, 2)[:2] == whole[:2]
    assert keys(paths, 2)[2] != whole[2]
    assert keys(paths, 4)[:1] == whole[:1] == keys(paths, 3)[:1]
    assert keys(paths, 4)[1] != whole[1]


def test_only_full_blocks_are_covered() -> None:
    paths = PrefixPaths(make_ids("abc"), 1, ID_TOKENS)
    assert [paths.num_covered(0, tokens) for tokens in (3, 4, 11, 12, 99)] == [0, 1, 2, 3, 3]
    finer = PrefixPaths(make_ids("abc"), 1, 2)
    assert [finer.num_covered(0, tokens) for tokens in (1, 3, 11, 99)] == [0, 1, 5, 6]
    coarser = PrefixPaths(make_ids("abc"), 1, 8)
    assert [coarser.num_covered(0, tokens) for tokens in (7, 8, 12, 99)] == [0, 1, 1, 1]


@pytest.mark.parametrize("prefix", [None, make_ids(), make_ids([], [])])
def test_without_ids_nothing_is_covered(prefix: PrefixIds | None) -> None:
    paths = PrefixPaths(prefix, 2, 16)
    assert [paths.path(index) for index in range(2)] == [[], []]
    assert paths.num_covered(1, 1000) == 0


@pytest.mark.parametrize(("id_tokens", "block_size"), [(16, 12), (16, 24), (12, 8)])
def test_sizes_that_do_not_fit_are_refused(id_tokens: int, block_size: int) -> None:
    message = f"block_size={block_size} does not fit the trace's ids of {id_tokens} tokens"
    with pytest.raises(ValueError, match=message):
        check_block_sizes(id_tokens, block_size)
    with pytest.raises(ValueError, match=message):
        PrefixPaths(make_ids("a", id_tokens=id_tokens), 1, block_size)


def test_finer_blocks_than_ids_give_a_lower_bound() -> None:
    assert shared_prefix_is_lower_bound(512, 16)
    assert not shared_prefix_is_lower_bound(16, 16)
    assert not shared_prefix_is_lower_bound(16, 32)


def tokens_of(ids: list[int], count: int) -> list[int]:
    """The tokens that ids stand for, as far as they go."""
    return [number * ID_TOKENS + place for number in ids for place in range(ID_TOKENS)][:count]


@given(
    block_size=st.sampled_from([1, 2, 4, 8, 12]),
    requests=st.lists(
        st.tuples(st.lists(st.integers(1, 3), max_size=8), st.integers(0, 3)), max_size=8
    ),
)
def test_against_tokens(block_size: int, requests: list[tuple[list[int], int]]) -> None:
    """The last id may be partial: ``missing`` of its tokens are not in the request."""
    paths = PrefixPaths(make_ids(*(ids for ids, _ in requests)), len(requests), block_size)
    block_of: dict[tuple[int, ...], tuple[int, int]] = {}
    for index, (ids, missing) in enumerate(requests):
        tokens = tokens_of(ids, max(len(ids) * ID_TOKENS - missing, 0))
        covered = paths.num_covered(index, len(tokens))
        assert covered == len(tokens) // block_size
        for number, key in enumerate(keys(paths, index)[:covered]):
            prefix = tuple(tokens[: (number + 1) * block_size])
            assert block_of.setdefault(prefix, key) == key, "equal prefixes, two keys"
    assert len(set(block_of.values())) == len(block_of), "two prefixes, one key"


@given(st.lists(st.lists(st.integers(1, 2), max_size=6), max_size=8))
def test_two_requests_share_their_common_leading_ids(requests: list[list[int]]) -> None:
    paths = PrefixPaths(make_ids(*requests), len(requests), ID_TOKENS)
    for one, two in combinations(range(len(requests)), 2):
        common = num_common(requests[one], requests[two])
        ours, others = (keys(paths, n)[: len(requests[n])] for n in (one, two))
        assert num_common(ours, others) == common


def num_common(one: Sequence[object], two: Sequence[object]) -> int:
    """Length of the common prefix."""
    pairs = zip(one, two, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))
