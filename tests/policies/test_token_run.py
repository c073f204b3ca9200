"""Runs of tokens against the tokens themselves."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.token_run import TokenRun

NAMES = st.lists(st.integers(0, 2), max_size=6).map(tuple)


def tokens(run: TokenRun) -> list[tuple[int, int]]:
    """Each token spelt out: the name of its stretch and its place in there."""
    spelt = []
    for name, (start, end) in zip(run.names, pairwise((0, *run.ends)), strict=True):
        spelt += [(name, place) for place in range(end - start)]
    return spelt[run.start : run.stop]


def num_alike(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[TokenRun, TokenRun]:
    """Runs that begin at one token of two sequences, after equal tokens.

    The sequences have stretches of one length, or leave a common path of stretches of any length,
    perhaps within one of them.
    """
    if draw(st.booleans()):
        id_tokens = draw(st.integers(1, 5))
        whole = [TokenRun.of(draw(NAMES), id_tokens) for _ in range(2)]
    else:
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
        ends, whole = list(accumulate(lengths)), []
        for own in (90, 91):
            leaves = draw(st.integers(0, ends[-1]))
            names = [(n, end) for n, end in enumerate(ends) if end < leaves]
            if leaves:
                names.append((len(names), leaves))
            names.append((own, leaves + draw(st.integers(1, 4))))
            stretches = tuple(n for n, _ in names), tuple(end for _, end in names)
            whole.append(TokenRun(*stretches, 0, names[-1][1]))
    same = num_alike(tokens(whole[0]), tokens(whole[1]))
    start = draw(st.integers(0, same))
    one, other = (TokenRun(run.names, run.ends, start, run.stop) for run in whole)
    return one.first(draw(st.integers(0, len(one)))), other.first(draw(st.integers(0, len(other))))


@given(pairs())
def test_shared_tokens(pair: tuple[TokenRun, TokenRun]) -> None:
    one, other = pair
    same = num_alike(tokens(one), tokens(other))
    assert one.num_shared(other) == other.num_shared(one) == same


@given(pairs(), st.data())
def test_parts(pair: tuple[TokenRun, TokenRun], data: st.DataObject) -> None:
    one, other = pair
    assert len(one) == len(tokens(one))
    cut = data.draw(st.integers(0, min(len(one), len(other))))
    assert tokens(one.first(cut)) == tokens(one)[:cut]
    assert tokens(one.after(cut)) == tokens(one)[cut:]


@given(st.integers(1, 5), NAMES, NAMES, st.data())
def test_heads(
    id_tokens: int, one: tuple[int, ...], other: tuple[int, ...], data: st.DataObject
) -> None:
    runs = TokenRun.of(one, id_tokens), TokenRun.of(other, id_tokens)
    same = num_alike(*map(tokens, runs))
    start = data.draw(st.integers(0, same))
    runs = runs[0].after(start), runs[1].after(start)
    if not min(map(len, runs)):
        return
    page = data.draw(st.integers(1, min(map(len, runs))))
    assert (runs[0].head(page) == runs[1].head(page)) == (same - start >= page)


def test_a_head_within_one_stretch_is_its_name() -> None:
    one, other = TokenRun((7, 1), (8, 12), 4, 12), TokenRun((7,), (40,), 4, 40)
    assert one.head(4) == other.head(4) == 7
    assert one.after(4).head(4) == 1
    assert other.after(4).head(4) == 7


def test_a_whole_sequence() -> None:
    run = TokenRun.of((7, 9), 4)
    assert (run.start, run.stop) == (0, 8)
    assert tokens(run.after(3).first(2)) == [(7, 3), (9, 0)]
    assert repr(run.after(3)) == "<tokens 3 to 8>"
    assert len(TokenRun.of(())) == 0


def test_bounds_and_unlike_runs() -> None:
    run = TokenRun.of((7, 9), 4)
    with pytest.raises(AssertionError, match=r"tokens 0 to 9 of stretches that end at \(4, 8\)"):
        run.first(9)
    with pytest.raises(AssertionError, match="start apart"):
        run.num_shared(run.after(1))
