"""Every recorded schedule of the real engine is replayed identically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.conformance import replay
from kvsim.sim.golden import GoldenLog, find_trace, read_log
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


@pytest.mark.parametrize("name", sorted(INDEX))
def test_made_up_scenario(name: str, recorded: Recorded) -> None:
    log, trace = recorded(name)
    verdict = replay(log, trace, step=True)
    assert verdict.difference is None
    assert verdict.num_steps == INDEX[name]["steps"]


@pytest.mark.parametrize("name", REAL)
def test_slice_of_a_public_trace(name: str, shared: Path) -> None:
    path = shared / "golden" / "vllm-real" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    log = read_log(path)
    verdict = replay(log, read_trace(find_trace(log)), step=True)
    assert verdict.difference is None
    assert verdict.num_steps == log.summary["steps"]
