"""Timeouts of clients: those of the trace, and one for all others."""

from __future__ import annotations

import numpy as np
import pytest

from kvsim.traces.adjust.patience import parse_timeout, with_timeout
from kvsim.traces.trace.trace import Trace, TraceError

ONES = np.ones(3, dtype=np.int64)
TRACE = Trace("t", ONES, ONES, ONES)


def test_rows_that_say_a_timeout_keep_theirs() -> None:
    silent = with_timeout(TRACE, "1.5s").timeout_ns
    assert silent is not None
    assert silent.tolist() == [1_500_000_000] * 3
    some = Trace("t", ONES, ONES, ONES, timeout_ns=np.array([-1, 0, 7]))
    said = with_timeout(some, "2ms").timeout_ns
    assert said is not None
    assert said.tolist() == [2_000_000, 0, 7]
    assert some.timeout_ns is not None
    assert some.timeout_ns.tolist() == [-1, 0, 7]


def test_a_timeout_that_nobody_needs_is_refused() -> None:
    trace = Trace("t", ONES, ONES, ONES, timeout_ns=ONES)
    with pytest.raises(TraceError, match=r"t: the trace says .* \(timeout_ns\); .* leave it out"):
        with_timeout(trace, "5s")


@pytest.mark.parametrize("text", ["", "5", "0s", "0.0000001ms", "-1s", "5h", "200000min", "nan s"])
def test_what_is_no_timeout(text: str) -> None:
    with pytest.raises(
        TraceError, match=r"--timeout is .*; allowed are times above 0 and up to 106"
    ):
        parse_timeout(text)
