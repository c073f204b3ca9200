"""Start-up logs of five versions: what is read, and ours beside theirs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.pool.log_match import as_in_log, match_log
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.pool.startup_log import parse_startup_log, read_startup_log

LOGS = Path(__file__).parents[2] / "data" / "startup"


def rows(name: str, model: str, hardware: str, **options: Any) -> dict[str, Any]:
    log = read_startup_log(LOGS / name)
    request = PoolRequest(load_model(model), load_hardware(hardware), **options)
    request, _ = as_in_log(request, log, seats_given=False)
    return {row.name: row for row in match_log(request, plan(request), log)}


def test_v0_prints_blocks_only() -> None:
    log = read_startup_log(LOGS / "v0.5-llama-3.1-8b-a100.log")
    assert log.version == (0, 5, 4)
    assert log.values == {"loaded_gib": 14.9888, "gpu_blocks": 28_230, "cpu_blocks": 2048}
    assert log.options["engine.max_model_len"] == 8192
    found = rows("v0.5-llama-3.1-8b-a100.log", "llama-3.1-8b", "a100-sxm")
    assert found["blocks"].ours == pytest.approx(28_230, rel=0.005)
    assert found["CPU blocks"].ours == found["CPU blocks"].theirs == 2048
    assert "28,230 blocks x 2,097,152 B" in found["KV"].why


def test_v0_with_the_profile_line() -> None:
    log = read_startup_log(LOGS / "v0.7-qwen2.5-1.5b-a10g.log")
    assert log.values == {
        "total_gib": 22.06,
        "utilization": 0.9,
        "usable_gib": 19.85,
        "weights_gib": 2.88,
        "loaded_gib": 2.8797,
        "non_torch_gib": 0.05,
        "peak_gib": 1.4,
        "kv_gib": 15.52,
        "graphs_gib": 0.18,
        "gpu_blocks": 36_332,
        "cpu_blocks": 9362,
        "concurrency_length": 4096,
        "concurrency": 141.92,
    }
    found = rows("v0.7-qwen2.5-1.5b-a10g.log", "qwen2.5-1.5b", "a10g", max_model_len=4096)
    for name in ("weights", "activation peak"):
        assert found[name].ours == pytest.approx(found[name].theirs, abs=0.02), name
    assert found["KV"].ours == pytest.approx(15.52, rel=0.01)
    assert found["activation peak"].ours == pytest.approx(1.40, abs=0.005)  # whole prompts of 4,096
    assert found["KV"].why == "-0.14: usable -0.06, non-torch -0.08"
    assert found["blocks"].why == "the log's KV in planned blocks gives 36,325, as in the log"
    assert found["CPU blocks"].ours == 9362
    assert found["max concurrency"].why.endswith("as in the log")


def test_early_v1_prints_tokens() -> None:
    log = read_startup_log(LOGS / "v0.8-v1-llama-3.1-8b-4090.log")
    assert log.version == (0, 8, 5)
    assert (log.get("kv_tokens"), log.get("concurrency")) == (41_408, 1.26)
    assert log.options == {
        "model.name": "meta-llama/Llama-3.1-8B-Instruct",
        "engine.max_model_len": 32_768,
        "engine.tensor_parallel_size": 1,
        "engine.pipeline_parallel_size": 1,
        "engine.max_num_batched_tokens": 2048,
    }
    found = rows("v0.8-v1-llama-3.1-8b-4090.log", "llama-3.1-8b", "rtx-4090")
    assert found["KV"].theirs == pytest.approx(2588 * 2**21 / 2**30)
    assert found["KV cache tokens"].ours == pytest.approx(41_408, rel=0.02)
    assert found["max concurrency"].ours == pytest.approx(1.26, abs=0.02)


def test_v1_with_the_memory_line() -> None:
    found = rows(
        "v0.11-llama-3.1-8b-h100.log",
        "llama-3.1-8b",
        "h100-sxm",
        max_num_seqs=1024,
        max_num_batched_tokens=8192,
    )
    assert found["activation peak"].why == found["non-torch"].why == ""
    assert found["KV"].ours == pytest.approx(51.38, abs=0.06)
    assert found["graphs"].ours == 0
    assert "captured after KV was sized" in found["graphs"].why
    assert (
        found["KV cache tokens"].why
        == "the log's KV in planned blocks gives 420,896, as in the log"
    )


def test_today_sets_graphs_aside_and_charges_windows_for_steps_in_flight() -> None:
    log = read_startup_log(LOGS / "v0.26-gpt-oss-20b-h100.log")
    assert log.get("graphs_estimate_gib") == 0.61
    options: dict[str, Any] = {"max_num_seqs": 1024, "max_num_batched_tokens": 8192}
    found = rows("v0.26-gpt-oss-20b-h100.log", "gpt-oss-20b", "h100-sxm", **options)
    assert found["graphs"].ours == pytest.approx(0.4)
    assert (
        found["KV cache tokens"].why
        == "the log's KV in planned blocks gives 1,925,941, as in the log"
    )
    assert "graphs +0.21" in found["KV"].why
    assert "rest" not in found["KV"].why.replace(
        "rest (what the log does not print, rounding) -0.01", ""
    )
    request = PoolRequest(load_model("gpt-oss-20b"), load_hardware("h100-sxm"), **options)
    changed, notes = as_in_log(request, log, seats_given=True)
    assert changed.batches_in_flight == 2
    assert "2 steps in flight" in notes[-1]


def test_old_versions_have_fewer_seats_and_no_graphs() -> None:
    log = parse_startup_log("vLLM API server version 0.6.3\n# GPU blocks: 100, # CPU blocks: 5")
    request = PoolRequest(load_model("llama-3.1-8b"), load_hardware("h100-sxm"), max_num_seqs=1024)
    changed, notes = as_in_log(request, log, seats_given=False)
    assert (changed.max_num_seqs, changed.graphs_bytes, changed.swap_bytes) == (256, 0, 4 * 2**30)
    assert len(notes) == 3  # 131,072 tokens: v0 chunks by itself
    assert as_in_log(request, log, seats_given=True)[0].max_num_seqs == 1024
    short = replace(request, max_model_len=16_384)
    assert as_in_log(short, log, seats_given=True)[0].max_num_batched_tokens == 16_384
    given, _ = as_in_log(short, log, seats_given=True, tokens_given=True)
    assert given.max_num_batched_tokens == 2048


@pytest.mark.parametrize(("version", "tokens"), [("0.11.0", 67_760), ("0.26.0", 415_575)])
def test_mixed_layers_are_counted_as_the_version_did(version: str, tokens: int) -> None:
    """Until 0.21 the log printed blocks // tables x 16, far below what fits."""
    log = parse_startup_log(f"vLLM API server version {version}\nGPU KV cache size: 7 tokens")
    options: dict[str, Any] = {"num_blocks": 29_645, "max_model_len": 131_072}
    request = PoolRequest(load_model("gemma-3-27b"), load_hardware("h200"), **options)
    found = {row.name: row for row in match_log(request, plan(request), log)}
    assert found["KV cache tokens"].ours == tokens


def test_a_log_of_nothing_left_has_its_reasons() -> None:
    log = parse_startup_log(
        "Available KV cache memory: 0.00 GiB\nMaximum concurrency for 1 tokens per request: 0.00x"
    )
    request = PoolRequest(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))
    found = match_log(request, plan(request), log)
    assert all(row.why for row in found if row.ours != row.theirs)
    assert "gives 0.00, as in the log" in found[-1].why
    only = parse_startup_log("Maximum concurrency for 9 tokens per request: 5.00x")
    assert [row.why for row in match_log(request, plan(request), only)] == [
        "the log has neither KV memory nor blocks to compare"
    ]


def test_the_wrong_model_is_told_by_its_blocks() -> None:
    found = rows("v0.7-qwen2.5-1.5b-a10g.log", "qwen2.5-0.5b", "a10g")
    assert "not the log's" in found["blocks"].why


def test_several_ranks_take_the_smallest_memory() -> None:
    lines = "".join(f"Available KV cache memory: {x} GiB\n" for x in (10.29, 10.02, 10.31))
    assert parse_startup_log(lines).get("kv_gib") == 10.02


def test_a_negative_remainder_is_read() -> None:
    text = "the rest of the memory reserved for KV Cache is -0.94GiB.\n# cuda blocks: 0"
    assert parse_startup_log(text).values == {"kv_gib": -0.94, "gpu_blocks": 0}


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\xff\x00" * 50, b"GPU KV cache size: ,,, tokens"]
)
def test_files_without_a_memory_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.log: no memory line of a vLLM start-up log"):
        read_startup_log(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_startup_log(tmp_path)
