"""``simulate`` from Python: what a run says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim import Scenario, simulate
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import dump_profile, load_bundled_profile
from kvsim.traces import Trace

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Scenario().with_values({"engine.num_gpu_blocks_override": 100})


def make_trace(prompt_tokens: list[int], output_tokens: list[int]) -> Trace:
    return Trace(
        "hand-made",
        np.zeros(len(prompt_tokens), dtype=np.int64),
        np.array(prompt_tokens, dtype=np.int64),
        np.array(output_tokens, dtype=np.int64),
    )


def test_a_run_prints_as_one_line() -> None:
    run = simulate(make_trace([10] * 1000, [1] * 1000), SMALL)
    assert repr(run) == (
        f"<Run of hand-made, 1,000 requests: {SMALL.preset}, llama-3.1-8b, h100-sxm>"
    )


def test_answers_that_the_model_length_or_max_tokens_cut_are_told() -> None:
    trace = make_trace([90, 95, 100, 9], [50, 5, 1, 5])  # one cut, one just fits, one refused
    scenario = SMALL.with_values({"engine.max_model_len": 100})
    notes = simulate(trace, scenario).summary.notes
    assert len(notes) == 1
    assert "1 output was cut short, by 40 tokens in all: max_model_len 100 or" in notes[0]
    short = simulate(trace, scenario, assume_max_tokens="3").summary.notes
    assert "3 outputs were cut short, by 51 tokens" in str(short)
    kept = make_trace([90, 9], [10, 5])
    assert simulate(kept, scenario).summary.notes == []


def test_a_profile_with_large_errors_is_noted(tmp_path: Path) -> None:
    path, profile = tmp_path / "mine.json", load_bundled_profile("h100-sxm")
    path.write_text(dump_profile(replace(profile, hold_out={"layer": HoldOut(0.357, 0.5, 4)})))
    scenario = SMALL.with_values({"cost.source": str(path)})
    notes = str(simulate(make_trace([9], [5]), scenario).summary.notes)
    assert "step costs of layer were 36 % off, at the median" in notes


def test_much_that_was_not_measured_is_warned_about() -> None:
    """Chunks over a past are measured on no server card; prompts of one step and decodes are."""
    long, short = make_trace([30_000] * 4, [2] * 4), make_trace([500], [400])
    told = {}
    for name, trace, values in (
        ("chunks", long, {}),
        ("decodes", short, {}),
        ("datasheet", long, {"cost.source": "datasheet"}),
    ):
        summary = simulate(trace, Scenario().with_values(values)).summary
        cost = summary.cost
        assert cost.percent_outside is not None
        told[name] = (cost.percent_outside > 10, "are extrapolated" in str(summary.notes))
    assert told == {"chunks": (True, True), "decodes": (False, False), "datasheet": (True, False)}
