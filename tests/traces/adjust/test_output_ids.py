"""Ids of answers: recorded, inferred from the next turn, or dropped."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import PrefixIds, Trace, TraceError, apply_output_ids, read_trace
from kvsim.traces.trace.prefix import PrefixPaths

DATA = Path(__file__).parents[2] / "data"


def make_trace(
    rows: list[tuple[int, int, list[int]]],
    after: list[int] | None,
    *,
    covers: bool = False,
    size: int = 16,
) -> Trace:
    """Trace of (prompt, output, ids) rows."""
    lengths = [len(ids) for _, _, ids in rows]
    prefix = PrefixIds(
        size,
        np.cumsum([0, *lengths]),
        np.array([i for _, _, ids in rows for i in ids], dtype=np.int64),
        covers,
    )
    return Trace(
        "t",
        np.arange(len(rows), dtype=np.int64),
        np.array([prompt for prompt, _, _ in rows]),
        np.array([output for _, output, _ in rows]),
        after_request=None if after is None else np.array(after),
        prefix=prefix,
    )


def id_lists(trace: Trace) -> list[list[int]]:
    assert trace.prefix is not None
    ids = trace.prefix.ids.tolist()
    return [ids[a:b] for a, b in pairwise(trace.prefix.offsets.tolist())]


def test_recorded_changes_nothing() -> None:
    trace = make_trace([(20, 30, [1, 2, 3])], None, covers=True)
    assert apply_output_ids(trace, "recorded") is trace


def test_calls_of_sub_agents_are_passed_over() -> None:
    """The turn at the end follows a sub-agent's call, and repeats the request before that."""
    rows = [(16, 16, [1]), (16, 8, [7]), (40, 5, [1, 2])]
    inferred = apply_output_ids(make_trace(rows, [-1, 0, 1]), "next-turn")
    assert id_lists(inferred) == [[1, 2], [7], [1, 2]]


def test_anonymous_cuts_every_block_that_holds_a_token_of_the_answer() -> None:
    trace = make_trace([(20, 30, [1, 2, 3]), (32, 16, [1, 5, 6])], None, covers=True)
    anonymous = apply_output_ids(trace, "anonymous")
    assert id_lists(anonymous) == [[1], [1, 5]]
    assert anonymous.prefix is not None
    assert not anonymous.prefix.covers_output
    prompts = make_trace([(20, 30, [1, 2])], None)
    assert id_lists(apply_output_ids(prompts, "anonymous")) == [[1, 2]]


def test_the_next_prompt_names_the_answer_before_it() -> None:
    rows = [(40, 30, [1, 2, 3]), (80, 10, [1, 2, 7, 8, 9]), (20, 9, [4, 5])]
    trace = apply_output_ids(make_trace(rows, [-1, 0, -1]), "next-turn")
    # 40 + 30 = 70 tokens: four full blocks; the last request's partial block is cut
    assert id_lists(trace) == [[1, 2, 7, 8], [1, 2, 7, 8, 9], [4]]
    assert trace.prefix is not None
    assert trace.prefix.covers_output


@pytest.mark.parametrize(
    ("child", "why"),
    [
        ((60, 5, [1, 2, 7]), "its prompt ends within the output: something was left out of it"),
        ((80, 5, [1, 9, 7, 8, 9]), "it does not repeat the prompt"),
        ((80, 5, []), "it has no ids"),
        ((80, 5, [1, 2]), "its ids end with the prompt"),
    ],
)
def test_what_cannot_be_inferred_stays_anonymous(
    child: tuple[int, int, list[int]], why: str
) -> None:
    trace = apply_output_ids(make_trace([(40, 30, [1, 2, 3]), child], [-1, 0]), "next-turn")
    assert id_lists(trace)[0] == [1, 2], why


def test_sessions_alone_say_which_turn_follows() -> None:
    trace = make_trace([(16, 16, [1]), (16, 16, [5]), (48, 1, [1, 2, 3])], None)
    trace.session = ["a", "b", "a"]
    assert id_lists(apply_output_ids(trace, "next-turn")) == [[1, 2], [5], [1, 2, 3]]


def test_the_first_turn_that_fits_counts() -> None:
    rows = [(16, 16, [1]), (48, 1, [9, 9, 9]), (48, 1, [1, 2, 3]), (48, 1, [1, 4, 5])]
    trace = apply_output_ids(make_trace(rows, [-1, 0, 0, 0]), "next-turn")
    assert id_lists(trace)[0] == [1, 2]


@pytest.mark.parametrize(
    ("trace", "answers", "sentence"),
    [
        (
            make_trace([(16, 1, [1])], None),
            "next",
            "--output-ids 'next' is unknown .*'next-turn'.*: recorded, next",
        ),
        (make_trace([(16, 1, [1])], None), "next-turn", "no request of this trace follows"),
        (Trace("t", *np.ones((3, 1), np.int64)), "next-turn", "this trace has none"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(trace: Trace, answers: str, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        apply_output_ids(trace, answers)


def test_receipt_says_what_was_done() -> None:
    trace = apply_output_ids(read_trace(DATA / "bailian.jsonl"), "next-turn")
    assert trace.receipt is not None
    assert trace.receipt.ids_cover_output
    assert "1 request have ids that were inferred" in " ".join(trace.receipt.lines()[-3:])
    assert id_lists(trace) == [[0, 1, 3, 4], [0, 1, 3, 4, 5], [8], []]


@given(data=st.data())
def test_shared_blocks_hold_equal_tokens(data: st.DataObject) -> None:
    """Against the tokens themselves: prompts repeat all that was said before them, or nothing."""
    size = 4
    tokens: list[list[int]] = []
    rows: list[tuple[int, int, list[int]]] = []
    after: list[int] = []
    names: dict[tuple[int, ...], int] = {}
    for index in range(data.draw(st.integers(2, 6))):
        parent = data.draw(st.integers(-1, index - 1))
        repeats = parent >= 0 and data.draw(st.booleans())
        start = tokens[parent] if repeats else [100 + index]
        new = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=7))
        prompt = start + new
        output = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=9))
        tokens.append(prompt + output)
        ends = range(size, len(prompt) + size, size)
        ids = [names.setdefault(tuple(prompt[:end]), len(names)) for end in ends]
        rows.append((len(prompt), len(output), ids))
        after.append(parent)
    trace = make_trace(rows, after, size=size)
    if max(after) < 0:
        return
    trace = apply_output_ids(trace, "next-turn")
    lists = id_lists(trace)
    for block_size in (2, 4, 8):
        paths = PrefixPaths(trace.prefix, len(trace), block_size)
        covered = [block_size * paths.num_covered(i, len(tokens[i])) for i in range(len(trace))]
        for one in range(len(trace)):
            for other in range(one):
                pairs = enumerate(zip(lists[one], lists[other], strict=False))
                least = min(len(lists[one]), len(lists[other]))
                same = next((k for k, (a, b) in pairs if a != b), least)
                upto = min(same * size, covered[one], covered[other])
                assert tokens[one][:upto] == tokens[other][:upto]
