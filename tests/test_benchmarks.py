"""The traces that benchmarks run are what their names say, and the same every time."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import pytest

if TYPE_CHECKING:
    from kvsim.traces import Trace

WORKLOADS = runpy.run_path(str(Path(__file__).resolve().parents[1] / "benchmarks/workloads.py"))


class MakesTrace(Protocol):
    def __call__(self, num_requests: int, rate_per_s: float, *, seed: int) -> Trace: ...


@pytest.fixture(scope="module", params=["independent", "multi_turn"])
def make(request: pytest.FixtureRequest) -> MakesTrace:
    return cast("MakesTrace", WORKLOADS[request.param])


def test_same_seed_same_trace(make: MakesTrace) -> None:
    first, second, other = make(500, 4.0, seed=7), make(500, 4.0, seed=7), make(500, 4.0, seed=8)
    for column in ("arrival_ns", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(first, column), getattr(second, column))
        assert not np.array_equal(getattr(first, column), getattr(other, column))


def test_columns_are_a_legal_trace(make: MakesTrace) -> None:
    trace = make(500, 4.0, seed=7)
    assert len(trace) == 500
    assert trace.arrival_ns[0] == 0
    assert (np.diff(trace.arrival_ns) >= 0).all()
    assert trace.prompt_tokens.min() >= 1
    assert trace.output_tokens.min() >= 1


def test_chats_have_the_size_that_is_asked_for() -> None:
    trace = WORKLOADS["multi_turn"](20_000, 40.0, seed=1, think_mean_s=5)
    assert (trace.prompt_tokens // 16).mean() == pytest.approx(95, abs=3)
    assert len(trace) / (trace.arrival_ns[-1] / 1e9) == pytest.approx(40, rel=0.1)


def test_a_turn_repeats_all_that_was_said_before() -> None:
    trace = WORKLOADS["multi_turn"](2_000, 4.0, seed=1)
    offsets, ids = trace.prefix.offsets, trace.prefix.ids
    last: dict[str, int] = {}
    compared = 0
    for index in np.lexsort((trace.turn, trace.session)):
        blocks = ids[offsets[index] : offsets[index + 1]]
        assert len(blocks) == -(-(trace.prompt_tokens[index] + trace.output_tokens[index]) // 16)
        before = last.get(trace.session[index])
        if before is not None and trace.turn[index] == trace.turn[before] + 1:
            earlier = ids[offsets[before] : offsets[before + 1]]
            assert np.array_equal(blocks[: len(earlier)], earlier)
            said = trace.prompt_tokens[before] + trace.output_tokens[before]
            assert trace.prompt_tokens[index] > said
            compared += 1
        last[trace.session[index]] = index
    assert compared > 1000


def test_reading_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    reading = runpy.run_path(str(Path(__file__).resolve().parents[1] / "benchmarks/traces.py"))
    assert reading["main"](["--rows", "2000", "--case", "own.csv", "--case", "own.parquet"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [
        ["own.csv", "2,000"],
        ["own.parquet", "2,000"],
    ]


def test_the_page_of_figures_is_the_one_that_the_script_writes() -> None:
    root = Path(__file__).resolve().parents[1]
    written = (root / "docs/performance.md").read_text("utf-8")
    template = runpy.run_path(str(root / "benchmarks/page.py"))["PAGE"]
    for fixed in re.split(r"\{\w+\}", template):
        assert fixed in written
