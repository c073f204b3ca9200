"""Arguments of wrong kinds, and traces that no reader would give: each is one sentence."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from kvsim import traces
from kvsim.traces import (
    ArrivalRule,
    MaxTokensRule,
    OutputRule,
    PrefixIds,
    Trace,
    apply_output_ids,
    arrival_rule,
    assume_max_tokens,
    bundled_path,
    check_usable,
    read_trace,
    session_start_rule,
    spread_ties,
    write_trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ODD: Final[tuple[Any, ...]] = (
    *(None, [], [1], {}, "", "nope", b"x", 0, -1, 7, 1.5, True, math.nan, math.inf, 10**30),
    *(Path("/"), int, object(), np.int64(3), np.array([1, 2])),
)
CHAT: Final = bundled_path("chat-2k")


def chat() -> Trace:
    return read_trace(CHAT, limit=4)


def prefix(offsets: list[int], ids: list[int], block_size: int = 16) -> PrefixIds:
    return PrefixIds(block_size, np.array(offsets), np.array(ids, dtype=np.int64))


CALLS: Final[dict[str, tuple[Callable[..., object], dict[str, Any]]]] = {
    "read_trace": (
        read_trace,
        {
            "path": CHAT,
            "format": None,
            "sort": False,
            "on_bad_row": "stop",
            "limit": 4,
            "keep_unusable": False,
            "need_times": True,
            "arrivals": None,
            "session_starts": None,
            "output_tokens": None,
            "seed": 0,
        },
    ),
    "write_trace": (write_trace, {"trace": chat(), "path": Path("absent/folder/x.csv")}),
    "apply_output_ids": (apply_output_ids, {"trace": chat(), "output_ids": "recorded"}),
    "arrival_rule": (arrival_rule, {"arrivals": "poisson", "rate": 3}),
    "session_start_rule": (session_start_rule, {"starts": "poisson", "rate": 3}),
    "assume_max_tokens": (
        assume_max_tokens,
        {"trace": chat(), "rule": "model", "max_model_len": 4096},
    ),
    "bundled_path": (bundled_path, {"name": "chat-2k"}),
    "check_usable": (check_usable, {"trace": chat(), "need_times": True}),
    "spread_ties": (spread_ties, {"trace": chat()}),
    "ArrivalRule": (ArrivalRule.parse, {"text": "poisson"}),
    "OutputRule": (OutputRule.parse, {"text": "256"}),
    "MaxTokensRule": (MaxTokensRule.parse, {"text": "model"}),
}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param(partial(call, **arguments), name, id=f"{what}-{name}")
        for what, (call, arguments) in CALLS.items()
        for name in arguments
    ],
)
def test_a_wrong_argument_is_one_sentence(call: Callable[..., object], name: str) -> None:
    said = []
    for odd in ODD:
        try:
            call(**{name: odd})
        except ValueError as error:
            said.append(str(error))
    assert said
    assert not any("\n" in sentence or "SeedSequence" in sentence for sentence in said)


def test_what_the_sentences_say() -> None:
    read: Any = read_trace
    spread: Any = spread_ties
    write: Any = write_trace
    for call, sentence in (
        (partial(read, None), "path is None; it must be a path"),
        (partial(read, CHAT, limit="5"), "--limit is '5'; allowed are whole numbers from 1"),
        (partial(read, CHAT, seed=1.5), "seed is 1.5; it must be a whole number from 0"),
        (partial(read, CHAT, sort="no"), "sort is 'no'; it must be True or False"),
        (
            partial(read, CHAT, output_tokens=256),
            "--output-tokens is 256; it must be text, such as '256'",
        ),
        (partial(spread, [1]), "trace is [1]; it must be a Trace; kvsim.traces.read_trace"),
        (partial(write, chat(), None), "path is None; it must be a path"),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
            call()
        assert str(caught.value).startswith(sentence)


def test_every_function_that_is_exported_is_tried() -> None:
    tried = {call.__name__ for call, _ in CALLS.values()}
    functions = {
        name
        for name in traces.__all__
        if callable(getattr(traces, name)) and not isinstance(getattr(traces, name), type)
    }
    assert functions - {"format_names"} <= tried


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt_tokens": [9, 9, 9, 9]}, "prompt_tokens is [9, 9, 9, 9]; it must be a numpy arr"),
        ({"output_tokens": np.ones(4)}, "output_tokens is array([1., 1., 1., 1.]); it must be"),
        ({"arrival_ns": None}, "arrival_ns is None; it must be a numpy array of"),
        ({"max_tokens": np.ones(3, dtype=np.int64)}, "max_tokens is array([1, 1, 1]); it must be"),
        ({"ends_by": np.ones(4, dtype=np.int64)}, "it must be a numpy array of 4 uint8"),
        ({"has_time": np.ones(4, dtype=np.int64)}, "it must be a numpy array of 4 bool"),
        ({"user": ["a"]}, "user is ['a']; it must be a list of 4 texts"),
        ({"user": "abcd"}, "user is 'abcd'; it must be a list of 4 texts"),
        ({"session": [None] * 4}, "session is [None, None, None, None]; it must be a list of"),
        ({"ids": 4}, "ids is 4; it must be a list of 4 texts"),
        ({"prefix": 1}, "prefix is 1; it must be PrefixIds, or None"),
        ({"name": None}, "name of the trace is None; it must be text"),
        ({"prompt_tokens": np.array([1, 0, 1, 1])}, "it must be whole numbers from 1 to"),
        ({"num_samples": np.array([1, 2**40, 1, 1])}, "it must be whole numbers from 1 to"),
        ({"arrival_ns": np.array([0, 2, 1, 3])}, "arrival_ns goes back"),
        ({"arrival_ns": np.array([-5, 2, 3, 4])}, "it must be whole numbers from 0 to"),
        ({"output_tokens": np.array([1, 2, 2**40, 1])}, "whole numbers from 0 to 2,147,483,647"),
        ({"max_tokens": np.array([1, 0, 1, 1])}, "it must be -1 where a request does not say"),
        ({"max_tokens": np.array([1, -7, 1, 1])}, "it must be whole numbers from -1 to"),
        ({"ends_by": np.full(4, 9, dtype=np.uint8)}, "it must be whole numbers from 0 to 1"),
        ({"delay_ns": np.full(4, -2)}, "it must be whole numbers from -1 to"),
        ({"timeout_ns": np.full(4, -2)}, "it must be whole numbers from -1 to"),
        ({"session": np.array(list("abcd"))}, "it must be a list of 4 texts"),
        (
            {"after_request": np.array([-1, 1, 0, 0])},
            "after_request of request 1 is 1; it must be the index of an earlier request, or -1",
        ),
        ({"after_request": np.array([-1, 0, 0, 99])}, "after_request of request 3 is 99; it must"),
        ({"after_request": np.array([-1, -2, 0, 0])}, "after_request of request 1 is -2; it must"),
        (
            {"also_after": traces.MorePredecessors(np.array([0, 0, 0, 0, 2]), np.array([1, 3]))},
            "requests of also_after of request 3 is 3; it must be the index of an earlier request",
        ),
        ({"prefix": prefix([0, 1, 2, 3, 9], [5, 6, 7])}, "ids of prefix is array([5, 6, 7]); it"),
        ({"prefix": prefix([0, 2, 1, 3, 3], [5, 6, 7])}, "it must be from 0 up, and never fall"),
        ({"prefix": prefix([1, 1, 2, 3, 3], [5, 6, 7])}, "it must be from 0 up, and never fall"),
        ({"prefix": prefix([0, 1], [5])}, "offsets of prefix is array([0, 1]); it must be a numpy"),
        ({"prefix": prefix([0] * 5, [], 0)}, "block_size of prefix is 0; it must be a whole"),
        ({"prefix": replace(prefix([0] * 5, []), anonymous_answer=np.array([True]))}, "of 4 bool"),
    ],
)
def test_columns_made_by_hand(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    trace = replace(chat(), **changes)
    for call in (
        check_usable,
        spread_ties,
        partial(apply_output_ids, output_ids="recorded"),
        partial(write_trace, path=tmp_path / "x.csv"),
        partial(assume_max_tokens, rule="model", max_model_len=99),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
            call(trace)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)
