"""Runs of tokens against the tokens themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators.token_run import TokenRun

IDS = st.lists(st.integers(0, 2), max_size=6).map(tuple)


def tokens(run: TokenRun) -> tuple[tuple[int, int], ...]:
    """Each token spelt out: its id and its place in there."""
    size = run.id_tokens
    return tuple((run.ids[p // size], p % size) for p in range(run.start, run.stop))


@st.composite
def runs(draw: st.DrawFn, number: int) -> list[TokenRun]:
    """Runs that begin at the same token of some sequences."""
    id_tokens = draw(st.integers(1, 5))
    sequences = [draw(IDS) for _ in range(number)]
    shortest = min(map(len, sequences)) * id_tokens
    start = draw(st.integers(0, shortest))
    stops = [draw(st.integers(start, len(ids) * id_tokens)) for ids in sequences]
    return [
        TokenRun(ids, id_tokens, start, stop) for ids, stop in zip(sequences, stops, strict=True)
    ]


@given(runs(2))
def test_shared_tokens(pair: list[TokenRun]) -> None:
    one, other = pair
    same = 0
    for mine, theirs in zip(tokens(one), tokens(other), strict=False):
        if mine != theirs:
            break
        same += 1
    assert one.num_shared(other) == other.num_shared(one) == same


@given(runs(2), st.data())
def test_parts(pair: list[TokenRun], data: st.DataObject) -> None:
    one, other = pair
    assert len(one) == len(tokens(one))
    cut = data.draw(st.integers(0, min(len(one), len(other))))
    assert tokens(one.first(cut)) == tokens(one)[:cut]
    assert tokens(one.after(cut)) == tokens(one)[cut:]
    same = tokens(one)[:cut] == tokens(other)[:cut]
    if cut:
        assert (one.head(cut) == other.head(cut)) == same


def test_a_whole_sequence() -> None:
    run = TokenRun.of((7, 9), 4)
    assert (run.start, run.stop) == (0, 8)
    assert tokens(run.after(3).first(2)) == ((7, 3), (9, 0))
    assert len(TokenRun.of(())) == 0


def test_bounds_and_unlike_runs() -> None:
    run = TokenRun.of((7, 9), 4)
    with pytest.raises(AssertionError, match="tokens 0 to 9 of 2 ids x 4"):
        run.first(9)
    with pytest.raises(AssertionError, match="unlike runs"):
        run.num_shared(run.after(1))
