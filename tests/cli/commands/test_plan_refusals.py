"""What ``kvsim plan`` refuses: one sentence each, exit code 2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsim.cli.main import main
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def refusal(capsys: Capture, *options: str) -> str:
    assert main(["plan", *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("kvsim: ")
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix("kvsim: ").rstrip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--tp 3", "tp=3 does not divide the 32 attention heads"),
        ("--pp 99", "pp=99 is not in 1..32"),
        ("--total-gib 0", "memory.total = 0: expected a size above 0"),
        ("--total-gib -1", "memory.total = -1: expected a size"),
        ("--utilization 1.5", "expected a fraction above 0"),
        ("--utilization nan", "expected a fraction above 0"),
        ("--max-model-len abc", "expected a whole number >= 2"),
        ("--kv-memory 1B", "kv_memory_bytes=1 holds 0 blocks of 2097152 B"),
        ("--engine tgi", "engine 'tgi' is unknown"),
        ("--slots 2", "--slots belongs to --engine llama.cpp"),
        ("--engine llama.cpp --slots x", "--slots 'x' is not a whole number"),
        ("--engine llama.cpp --match-log x", "--match-log reads vLLM's log"),
        ("--swap-space lots", "--swap-space 'lots': expected a size"),
        ("--config nowhere.json", "--config nowhere.json: there is no such file"),
        ("--config x --model y", "--config and --model both name the model"),
        ("--hardware h100", "did you mean 'h100-pcie' or 'h100-sxm'"),
        ("--mla expanded", "has no latent attention"),
        ("--kv-dtype fp3", "KV dtype 'fp3' is unknown"),
    ],
)
def test_errors_are_one_sentence(capsys: Capture, options: str, message: str) -> None:
    assert message in refusal(capsys, *options.split())


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda t: json.dumps({"a": t}).encode()))
def test_a_config_of_garbage_is_a_sentence(capsys: Capture, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert "config.json" in refusal(capsys, "--config", str(file))


def test_simulate_refuses_what_is_only_planned() -> None:
    pairs = {
        "gemma-4-31b": "hold 16 and 32 tokens, by layer group",
        "qwen3-next-80b-a3b": "keeps a fixed state per request",
    }
    for model, message in pairs.items():
        scenario = Scenario().with_values(
            {"model.name": model, "engine.num_gpu_blocks_override": 999}
        )
        with pytest.raises(ValueError, match=message):
            set_up(scenario)
    stages = Scenario().with_values({"engine.pipeline_parallel_size": 2})
    with pytest.raises(ValueError, match="pipeline stages are not simulated yet"):
        set_up(stages)
    chunked = Scenario().with_values(
        {"model.name": "llama-4-scout", "engine.num_gpu_blocks_override": 99_999}
    )
    assert any("chunked attention is counted" in note for note in set_up(chunked).notes)
