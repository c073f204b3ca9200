"""Every recorded schedule of the real engine is replayed identically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.conformance import replay
from kvsim.sim.golden import GoldenLog, engine_options, read_log
from kvsim.sim.leaper import leapable
from kvsim.sim.recordings import find_trace
from kvsim.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    Recorded = Callable[[str], tuple[GoldenLog, Trace]]

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "vllm"
INDEX = json.loads((GOLDEN / "index.json").read_text("utf-8"))
REAL = ("azure_0_600", "llmservingsim_0_300", "mooncake_0_200")


def test_every_log_is_in_the_index() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.gz")} == set(INDEX)
    assert len(INDEX) == 77


@pytest.mark.parametrize("step", [True, False], ids=["stepper", "leaper"])
@pytest.mark.parametrize("name", sorted(INDEX))
def test_made_up_scenario(name: str, step: bool, recorded: Recorded) -> None:
    log, trace = recorded(name)
    config, _ = engine_options(log.options)
    if not step and not leapable(config)[0]:
        pytest.skip(f"stepper only: {leapable(config)[1]}")
    verdict = replay(log, trace, step=step)
    assert verdict.engine == ("stepper" if step else "leaper")
    assert verdict.difference is None
    assert verdict.num_steps == INDEX[name]["steps"]


def test_most_logs_are_leapt() -> None:
    logs = (read_log(GOLDEN / f"{name}.jsonl.gz") for name in INDEX)
    assert sum(leapable(engine_options(log.options)[0])[0] for log in logs) == 49


@pytest.mark.parametrize("step", [True, False], ids=["stepper", "leaper"])
@pytest.mark.parametrize("name", REAL)
def test_slice_of_a_public_trace(name: str, step: bool, shared: Path) -> None:
    path = shared / "golden" / "vllm-real" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    log = read_log(path)
    verdict = replay(log, read_trace(find_trace(log)), step=step)
    assert verdict.difference is None
    assert verdict.num_steps == log.summary["steps"]
