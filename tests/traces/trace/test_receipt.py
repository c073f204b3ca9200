"""The receipt as text, and the time grid it tells of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import Receipt
from kvsim.traces.trace.receipt import duration
from kvsim.traces.trace.time_grid import time_grid_ns


def test_lines_of_a_receipt() -> None:
    receipt = Receipt(
        "conversation.jsonl",
        "mooncake",
        "ms",
        id_block_size=512,
        id_scope="global",
        time_grid_ns=3_000_000_000,
        num_distinct_times=901,
        rows_read=8_943,
        skipped={"input_length is missing": (2, 17)},
        failed={"status is 429": (1, 4_000)},
        notes=["sorted by time: 3 rows were earlier than the row above"],
    )
    assert receipt.lines() == [
        "trace     conversation.jsonl (mooncake)",
        "rows      8,943 read, 8,940 requests",
        "skipped   2: input_length is missing (first: line 17)",
        "failed    1: status is 429 (first: line 4,000)",
        "times     in ms; 901 distinct times for 8,940 requests: the 3 s grid changes p99",
        "          TTFT; --spread-ties spreads equal times",
        "ids       512 tokens each, scope global; a prefix is the whole chain of ids,",
        "          never one id; they cover prompts only: outputs without ids never hit,",
        "          so the hit rate is a lower bound",
        "note      sorted by time: 3 rows were earlier than the row above",
    ]


def test_a_fine_grid_or_no_tie_shapes_nothing() -> None:
    fine = Receipt("x", "azure", "s", time_grid_ns=100, num_distinct_times=1, rows_read=2)
    loose = Receipt("x", "azure", "s", time_grid_ns=10**9, num_distinct_times=2, rows_read=2)
    alone = Receipt("x", "azure", "s", num_distinct_times=1, rows_read=1)
    assert not any("shaped" in line for r in (fine, loose, alone) for line in r.lines())
    assert any("(100 ns grid)" in line for line in fine.lines())
    assert any(
        "prompts and outputs are anonymous (they never hit)" in line for line in fine.lines()
    )


def test_ids_that_cover_answers_say_so() -> None:
    receipt = Receipt(
        "x", "golden", "ns", id_block_size=16, id_scope="global", ids_cover_output=True
    )
    assert any("they cover prompts and outputs" in line for line in receipt.lines())


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1, "1 ns"), (1_500, "1.5 us"), (1_000_000, "1 ms"), (3_000_000_000, "3 s"),
        (90_000_000_000, "90 s"), (5_400_000_000_000, "1.5 h"), (86_400_000_000_000, "1 d"),
        (1_234_567, "1,234.567 us"), (1_000_000_001, "1,000,000.001 us"), (0, "0 ns"),
    ],
)  # fmt: skip
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text


@given(st.lists(st.integers(0, 10**6), min_size=2, unique=True), st.integers(1, 10**9))
def test_the_grid_divides_every_gap_or_is_kept_within_1_percent(
    steps: list[int], step_ns: int
) -> None:
    times = np.unique(np.array(steps) * step_ns)
    grid, jitter = time_grid_ns(times)
    assert grid is not None
    beside = (times - times[0]) % grid
    assert np.minimum(beside, grid - beside).max() == jitter <= grid // 100
    assert grid >= step_ns


def test_a_jittered_grid_is_seen() -> None:
    times = np.arange(50) * 3_000 + np.tile([0, 1, 0, 0, -1], 10)
    assert time_grid_ns(times) == (3_000, 1)
    assert time_grid_ns(np.array([5])) == (None, 0)
