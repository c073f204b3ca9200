"""Every recorded schedule of the real engine is replayed identically."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.sim.conformance.recordings import find_trace
from kvsim.sim.conformance.schedule_replay import replay
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.conformance.vllm_log import GoldenLog, engine_options, read_log
from kvsim.sim.leaping.leaper import leapable
from kvsim.traces import Trace, read_trace
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    Recorded = Callable[[str], tuple[GoldenLog, Trace]]

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "vllm"
INDEX = json.loads((GOLDEN / "index.json").read_text("utf-8"))
GROUPS = GOLDEN.with_name("vllm-groups")
WITH_GROUPS = json.loads((GROUPS / "index.json").read_text("utf-8"))
REAL = ("azure_0_600", "llmservingsim_0_300", "mooncake_0_200")


def test_every_log_is_in_the_index() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.gz")} == set(INDEX)
    assert len(INDEX) == 77
    assert {path.name.removesuffix(".jsonl.gz") for path in GROUPS.glob("*.gz")} == set(WITH_GROUPS)
    assert len(WITH_GROUPS) == 28


@pytest.mark.parametrize(
    "step", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["stepper", "leaper"]
)
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


@pytest.mark.parametrize("name", sorted(WITH_GROUPS))
def test_groups_in_any_order_and_aborts(name: str, recorded: Recorded) -> None:
    """All are the stepper's: it is asked for nothing, and takes them."""
    log, trace = recorded(name)
    assert (trace.timeout_ns is not None) == bool(WITH_GROUPS[name]["aborts"])
    verdict = replay(log, trace, step=False)
    assert (verdict.engine, verdict.difference) == ("stepper", None)
    assert verdict.num_steps == log.summary["steps"]


@pytest.mark.parametrize(("groups", "cached"), [([5, None], 5), ([None, 5], 6)])
def test_the_order_of_groups_decides_what_is_evicted(
    groups: list[int | None], cached: int, tmp_path: Path
) -> None:
    """Known of the engine: window first, at step 5 its cache has 5 blocks."""
    lengths = [(9, 4, [1]), (10, 11, [1, 2]), (3, 52, [3, 4, 5, 6])]
    requests = [
        {"id": f"r{i}", "arrival_ns": 0, "prompt_len": p, "output_len": o, "hash_ids": ids}
        for i, (p, o, ids) in enumerate(lengths)
    ]
    path = tmp_path / "three.json"
    path.write_text(json.dumps({"trace_block_size": 16, "requests": requests}), "utf-8")
    options = {"groups": groups, "block_size": 4, "num_gpu_blocks": 14, "max_model_len": 24}
    options |= {"prefix_cache_retention_interval": 0, "async_scheduling": True}
    config, cost = engine_options(options)
    trace = read_trace(path)
    log = StepperLog(trace)
    max_tokens = assume_max_tokens(trace, "model", config.max_model_len)
    run(trace, config, cost, max_tokens=max_tokens, listener=log)
    assert log.records[5]["cached_blocks"] == cached


def test_most_logs_are_leapt() -> None:
    configs = (engine_options(header(name)["options"])[0] for name in INDEX)
    assert sum(leapable(config)[0] for config in configs) == 49


def header(name: str) -> dict[str, Any]:
    """First line of a log; the others take longer to read."""
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        line: dict[str, Any] = json.loads(file.readline())
    return line


@lru_cache(maxsize=1)
def slice_at(path: Path) -> tuple[GoldenLog, Trace]:
    """Both engines' tests of a log stand together."""
    log = read_log(path)
    return log, read_trace(find_trace(log))


@pytest.mark.parametrize(
    "step", [pytest.param(True, marks=pytest.mark.slow), False], ids=["stepper", "leaper"]
)
@pytest.mark.parametrize("name", REAL)
def test_slice_of_a_public_trace(name: str, step: bool, shared: Path) -> None:
    path = shared / "golden" / "vllm-real" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    log, trace = slice_at(path)
    verdict = replay(log, trace, step=step)
    assert verdict.difference is None
    assert verdict.num_steps == log.summary["steps"]
