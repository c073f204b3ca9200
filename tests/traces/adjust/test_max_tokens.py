"""What the engine is told where the trace does not say; never the true length by default."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import MaxTokensRule, Trace, TraceError, assume_max_tokens


def trace_of(prompt: list[int], output: list[int], max_tokens: list[int] | None = None) -> Trace:
    return Trace(
        name="t",
        arrival_ns=np.zeros(len(prompt), dtype=np.int64),
        prompt_tokens=np.array(prompt),
        output_tokens=np.array(output),
        max_tokens=None if max_tokens is None else np.array(max_tokens),
    )


def test_model_leaves_the_room_in_the_context() -> None:
    trace = trace_of([10, 99, 100, 250], [5, 5, 5, 5])
    assert assume_max_tokens(trace, "model", 100).tolist() == [90, 1, 1, 1]
    assert trace.max_tokens is None


def test_rows_that_say_it_keep_it() -> None:
    trace = trace_of([10, 10, 10], [5, 5, 5], [7, -1, 64])
    assert assume_max_tokens(trace, "model", 100).tolist() == [7, 90, 64]
    assert assume_max_tokens(trace, "32", 100).tolist() == [7, 32, 64]
    assert assume_max_tokens(trace, "factor(2)", 100).tolist() == [7, 10, 64]


@given(st.lists(st.integers(1, 2**31 - 1), min_size=1))
def test_the_default_does_not_look_at_the_answer(output: list[int]) -> None:
    trace = trace_of([10] * len(output), output)
    assert set(assume_max_tokens(trace, "model", 4096).tolist()) == {4086}
    assert not MaxTokensRule.parse("model").uses_oracle


@given(st.integers(1, 2**31 - 1), st.integers(100_000, 99_999_999))
def test_a_factor_rounds_up_exactly(output: int, hundred_thousandths: int) -> None:
    rule = MaxTokensRule.parse(
        f"factor({hundred_thousandths // 10**5}.{hundred_thousandths % 10**5:05d})"
    )
    (told,) = assume_max_tokens(trace_of([1], [output]), rule, 10).tolist()
    assert (told - 1) * 10**5 < output * hundred_thousandths <= told * 10**5
    assert rule.uses_oracle


def test_a_tenth_is_no_binary_fraction() -> None:
    assert assume_max_tokens(trace_of([1], [10]), "factor(1.1)", 10).tolist() == [11]


@pytest.mark.parametrize(
    "text",
    ["", "Model", "0", "-5", "1.5", "factor", "factor()", "factor(0.9)", "factor(1e3)", "1,024"],
)
def test_other_rules_are_refused(text: str) -> None:
    with pytest.raises(TraceError, match=r"choices: model, a whole number from 1, and factor\(x\)"):
        MaxTokensRule.parse(text)
