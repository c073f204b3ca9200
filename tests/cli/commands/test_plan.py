"""``kvsim plan``: its table, its JSON, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvsim.cli.commands.simulate import scenario_of
from kvsim.cli.main import build_parser, main
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import bundled_path

LOGS = Path(__file__).parents[2] / "data" / "startup"
Capture = pytest.CaptureFixture[str]


def document(capsys: Capture, *options: str, code: int = 0) -> Any:
    assert main(["plan", "--json", *options]) == code
    return json.loads(capsys.readouterr().out)


def text(capsys: Capture, *options: str, code: int = 0) -> str:
    assert main(["plan", *options]) == code
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    return printed


def refusal(capsys: Capture, *options: str) -> str:
    assert main(["plan", *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("kvsim: ")
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix("kvsim: ").rstrip()


KEYS = (
    "kv_bytes_per_token kv_bytes_fixed_per_request num_blocks pool_tokens kv_pool_bytes"
    " max_concurrency kv_bytes_per_request max_model_len_that_fits cpu_blocks weights_bytes terms"
)


def test_the_json_has_its_keys(capsys: Capture) -> None:
    plan = document(capsys)
    assert set(KEYS.split()) <= set(plan)
    assert set(plan["kv_bytes_per_token"]) >= {"per_rank", "total"}
    assert plan["kv_bytes_per_token"]["total"] == 131_072
    assert plan["kv_bytes_per_request"] == 16 * 2**30
    assert plan["pool_tokens"] == plan["num_blocks"] * 16
    spent = sum(plan["terms"][name]["bytes"] for name in plan["terms"] if name != "usable")
    assert spent == plan["terms"]["usable"]["bytes"]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ("--model llama-2-7b", "kv_bytes_per_token.total", 524_288),
        ("--model opt-13b --num-blocks 15728 --block-size 1", "pool_tokens", 15_728),
        ("--model opt-13b --kv-memory 12GiB --block-size 1", "num_blocks", 15_728),
        ("--model qwen2.5-0.5b --max-model-len 8192", "kv_bytes_per_request", 96 * 2**20),
        ("--model llama-3.1-70b --num-blocks 9 --max-model-len 8192", "kv_bytes_per_request",
         5 * 2**29),
        ("--model deepseek-v3 --tp 8 --num-blocks 9", "kv_bytes_per_token.per_rank", 70_272),
        ("--model deepseek-v3 --mla expanded --num-blocks 9", "kv_bytes_per_token.total",
         4_997_120),
        ("--num-blocks 2588 --max-model-len 32768", "max_model_len_that_fits", 41_392),
        ("--num-blocks 2588 --swap-space 4", "cpu_blocks", 2048),
        ("--num-blocks 2588", "cpu_blocks", 0),
        ("--kv-dtype q8_0", "kv_bytes_per_token.total", 69_632),
        ("--kv-dtype int4", "kv_bytes_per_token.total", 32_768),
        ("--weights-gib 10", "weights_bytes", 10 * 2**30),
        ("--total-gib 40 --utilization 0.5 --weights-gib 10 --peak-gib 1 --graphs-gib 1"
         " --non-torch-gib 0", "num_blocks", 4096),
        ("--engine sglang --kv-memory 1", "num_blocks", 8192),
        ("--engine llama.cpp --slots 4 --max-model-len 4096", "pool_tokens", 16_384),
        ("--model qwen3-next-80b-a3b --tp 2 --num-blocks 99", "kv_bytes_fixed_per_request",
         36 * (8192 * 3 * 2 + 32 * 128 * 128 * 2) // 2),
    ],
)  # fmt: skip
def test_published_cases(capsys: Capture, options: str, key: str, value: int) -> None:
    plan = document(capsys, *options.split())
    for part in key.split("."):
        plan = plan[part]
    assert plan == value


def test_concurrency_as_a_server_printed_it(capsys: Capture) -> None:
    plan = document(capsys, "--num-blocks", "2588", "--max-model-len", "32768")
    assert plan["max_concurrency"] == 41_408 / 32_768
    printed = text(capsys, "--num-blocks", "2588", "--max-model-len", "32768")
    assert "\nMaximum concurrency for 32,768 tokens per request: 1.26x\n" in printed
    assert "1,024 running requests (max_num_seqs)" in " ".join(printed.split())


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--hardware", "a100-sxm", "--tp", "2", "--kv-dtype", "fp8"),
        ("--num-blocks", "777", "--block-size", "32"),
        ("--kv-memory", "12.34GiB"),
        ("--weights-gib", "3.5", "--peak-gib", "0", "--total-gib", "24", "--utilization", "0.8"),
    ],
)
def test_the_pool_is_the_one_that_simulate_uses(capsys: Capture, options: tuple[str, ...]) -> None:
    plan = document(capsys, *options)
    arguments = build_parser().parse_args(["simulate", "x.csv", *options])
    pool = set_up(scenario_of(arguments)).pool
    assert (pool.num_blocks, pool.block_bytes) == (plan["num_blocks"], plan["block_bytes"])
    assert pool.pool_bytes == plan["kv_pool_bytes"]


def test_a_trace_gives_its_mean_and_p95(capsys: Capture) -> None:
    plan = document(capsys, "--trace", str(bundled_path("chat-2k")))
    mean, p95 = plan["requests"]["trace_mean"], plan["requests"]["trace_p95"]
    assert 0 < mean["tokens"] < p95["tokens"] < 10_000
    assert mean["requests"] == (plan["num_blocks"] - 1) // -(-mean["tokens"] // 16)
    assert "trace p95" in text(capsys, "--trace", str(bundled_path("chat-2k")))


def test_mixed_models_show_their_groups(capsys: Capture) -> None:
    printed = text(capsys, "--model", "gemma-3-27b", "--hardware", "h200")
    assert "52           sliding          16         128       1,024     425,984" in printed
    assert "note" in text(capsys, "--model", "llama-4-scout", "--tp", "8")
    printed = text(capsys, "--model", "llama-4-scout", "--tp", "8", "--max-model-len", "9999")
    assert "chunked attention is counted as a sliding window" in printed
    printed = text(capsys, "--model", "gpt-oss-20b")
    assert " 3.00 MiB\n" in printed
    assert "windows: charged 16,384 tokens of steps in flight" in printed
    assert "state" in text(capsys, "--model", "jamba-v0.1", "--tp", "4")


def test_pipeline_ranks_and_the_binding_one(capsys: Capture) -> None:
    printed = text(capsys, "--model", "llama-3.1-70b", "--tp", "2", "--pp", "3")
    assert "binding               pipeline rank 2 of 3 (layers 54-79)" in printed
    assert "327,680 B over all 6 ranks" in printed
    plan = document(capsys, "--model", "llama-3.1-70b", "--pp", "4", "--num-blocks", "100")
    assert [rank["num_blocks"] for rank in plan["ranks"]] == [100] * 4


def test_what_does_not_fit_names_the_changes(capsys: Capture) -> None:
    printed = text(capsys, "--hardware", "rtx-4090")
    assert "DOES NOT FIT" in printed
    assert "max_model_len 131072 -> " in printed
    printed = text(capsys, "--model", "llama-3.1-70b", code=2)
    assert "KV               = -65.51 GiB" in printed
    assert "tp 1 -> 4                                +128.14 GiB  fits then" in printed
    assert "max_num_batched_tokens 8192 -> 2048" in printed
    assert "tp 1 -> 4 (+22.80 GiB a card)" in refusal(capsys, "--hardware", "t4")
    told = refusal(capsys, "--hardware", "t4", "--model", "llama-3.1-405b")
    assert "still not enough for 131,072 tokens)" in told
    plan = document(capsys, "--model", "llama-3.1-70b", code=2)
    assert (plan["fits"], plan["num_blocks"], plan["max_concurrency"]) == (False, 0, 0)
    assert plan["levers"][0]["freed_bytes"] > 0


def test_the_json_has_its_keys_where_nothing_fits_too(capsys: Capture) -> None:
    plan = document(capsys, "--hardware", "t4", "--swap-space", "4", code=2)
    assert set(KEYS.split()) <= set(plan)
    assert plan["kv_bytes_per_token"]["total"] == 131_072
    assert plan["kv_bytes_per_request"] == 16 * 2**30
    assert (plan["num_blocks"], plan["cpu_blocks"], plan["fits"]) == (0, 2048, False)
    assert plan["weights_bytes"] == plan["terms"]["weights"]["bytes"]
    last = document(capsys, "--model", "llama-3.1-70b", "--pp", "3", "--hardware", "l4", code=2)
    assert last["kv_bytes_per_token"]["per_rank"] < last["kv_bytes_per_token"]["total"]
    assert "16.00 GiB at 131,072 tokens" in text(capsys, "--hardware", "t4", code=2)


def test_a_length_the_model_was_not_made_for_is_said(capsys: Capture) -> None:
    assert document(capsys, "--max-model-len", "131073")["notes"] == [
        "max_model_len 131,073 is above the 131,072 tokens that llama-3.1-8b was made for"
    ]
    assert document(capsys)["notes"] == []


def test_levers(capsys: Capture) -> None:
    printed = text(capsys, "--levers")
    assert "MQA, 1 KV head          16,384  1,6" in printed
    assert "MLA, 576 values" in printed
    rows = document(capsys, "--levers")["levers"]
    assert rows[1]["requests"]["8192"] > 0
    assert "Frees most" in refusal(capsys, "--levers", "--model", "llama-3.1-70b")


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_logs_fill_what_was_not_given(capsys: Capture, log: Path) -> None:
    model = ("--model", "qwen2.5-1.5b") if "qwen" in log.name else ()
    rows = {row["name"]: row for row in document(capsys, "--match-log", str(log), *model)["log"]}
    assert rows
    assert all(row["why"] or row["unit"] == "GiB" for row in rows.values())
    assert "beside the log" in text(capsys, "--match-log", str(log), *model)


def test_a_log_names_its_model_and_its_faults(capsys: Capture, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("model='mistralai/Mistral-7B-Instruct-v0.2'\n# GPU blocks: 9, # CPU blocks: 1")
    assert document(capsys, "--match-log", str(log))["model"] == "mistral-7b"
    log.write_text("model='org/Unheard-9B'\n# GPU blocks: 9, # CPU blocks: 1")
    assert "its model 'org/Unheard-9B' is not bundled; give --model" in refusal(
        capsys, "--match-log", str(log)
    )
    log.write_text("Available KV cache memory: 3.50 GiB")
    printed = " ".join(text(capsys, "--hardware", "t4", "--match-log", str(log), code=2).split())
    assert "the log has 3.50 GiB for KV; --kv-memory 3.50GiB plans with that" in printed
    log.write_text("max_seq_len=0\n# GPU blocks: 9, # CPU blocks: 1")
    assert refusal(capsys, "--match-log", str(log)).startswith(f"{log}: engine.max_model_len = 0")


def test_swap_shows_its_break_even(capsys: Capture) -> None:
    printed = text(capsys, "--swap-space", "4")
    assert "CPU blocks            2,048 a rank" in printed
    words = " ".join(printed.split())
    # 8,192 blocks, out and in: 64 x 6 us and 2 MiB at 63 GB/s each
    assert "131,072 tokens: out and in 6.84 s over the host link (64 copies a block" in words
    assert "at 6 us, 63 GB/s, assumed)" in words
    assert "swapping pays from 92," in words
    assert "swapping never pays" in " ".join(
        text(capsys, "--swap-space", "4", "--max-model-len", "8192").split()
    )
    one_memory = document(capsys, "--swap-space", "4", "--hardware", "m4-max-128gb")
    assert one_memory["swap"] is None


def test_a_config_file_is_planned(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "num_hidden_layers": 80,
        "intermediate_size": 28672,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    }
    file.write_text(json.dumps(config), encoding="utf-8")
    plan = document(capsys, "--config", str(file), "--num-blocks", "300")
    assert 64 * plan["kv_bytes_per_token"]["total"] == 80 * 64 * 2 * 128 * 2
