"""Formats are told by content; what fits none or two is an error that names the choices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvsim.traces import TraceError, format_names, read_trace
from kvsim.traces.formats import READERS
from kvsim.traces.reading.base import Head

DATA = Path(__file__).parents[2] / "data"
FORMATS = {
    "azure.csv": "azure",
    "vidur.csv": "vidur",
    "vidur_lengths.csv": "vidur",
    "mooncake.jsonl": "mooncake",
    "golden.json": "golden",
    "own.csv": "kvsim-csv",
    "own_plain.csv": "kvsim-csv",
    "own.jsonl": "kvsim-jsonl",
    "own.parquet": "kvsim-parquet",
}
OTHERS = {
    "azure_2024.csv": "azure",
    "vidur_prompts.csv": "vidur",
    "aiperf.jsonl": "aiperf",
    "aiperf_sessions.jsonl": "aiperf",
    "arctic.jsonl": "arctic-inference",
    "bailian.jsonl": "qwen-bailian",
    "burstgpt.csv": "burstgpt",
    "burstgpt_2.csv": "burstgpt",
    "kv_cache_tester.jsonl": "kv-cache-tester",
    "kv_cache_tester_one.json": "kv-cache-tester",
    "apex.jsonl": "apex",
    "llmservingsim_blocks.jsonl": "llmservingsim-blocks",
    "llmservingsim.jsonl": "llmservingsim",
    "llmservingsim_measured.jsonl": "llmservingsim-measured",
    "tracelab.csv": "tracelab",
    "tracelab_no_times.csv": "tracelab",
    "tracelab_rounds.jsonl": "tracelab-rounds",
    "fleet_sim.csv": "fleet-sim",
    "fleet_sim.jsonl": "fleet-sim",
    "aibrix.jsonl": "aibrix",
    "tair_tokens.jsonl": "tair-tokens",
    "servegen/chunk-0-trace.csv": "servegen",
    "servegen/chunk-0-dataset.json": "servegen",
    "aiperf_export.jsonl": "aiperf-export",
    "guidellm.json": "guidellm",
    "guidellm_empty.json": "guidellm",
    "llmperf.json": "llmperf",
    "inference_perf.json": "inference-perf",
    "vllm_bench.json": "vllm-bench",
    "vllm_bench_no_times.json": "vllm-bench",
    "otel.json": "otel",
    "otel_otlp.jsonl": "otel",
    "otel_no_counts.json": "otel",
    "length_cdf.json": "length-cdf",
    "cache_queries.jsonl": "cache-queries",
    "inference_perf_summary.json": "inference-perf-summary",
}


@pytest.mark.parametrize("file", FORMATS | OTHERS)
def test_exactly_one_format_fits(file: str) -> None:
    head = Head.of((DATA / file).read_bytes())
    fitting = [reader.name for reader in READERS if reader.detect(head)]
    assert fitting == [(FORMATS | OTHERS)[file]]


def test_every_format_has_a_miniature() -> None:
    assert {reader.name for reader in READERS} == set((FORMATS | OTHERS).values())


def test_names_are_distinct_and_titled() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS)
    assert set(format_names()) < {reader.name for reader in READERS}
    assert all(reader.title for reader in READERS)


@pytest.mark.parametrize("file", ["azure.csv", "own.parquet", "mooncake.jsonl"])
def test_the_suffix_says_nothing(tmp_path: Path, file: str) -> None:
    path = tmp_path / "trace.txt"
    shutil.copyfile(DATA / file, path)
    trace = read_trace(path)
    assert trace.receipt is not None
    assert trace.receipt.format == FORMATS[file]


def test_two_formats_that_fit_are_both_named(tmp_path: Path) -> None:
    path = tmp_path / "both.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens,arrived_at,num_prefill_tokens,num_decode_tokens\n"
        "2023-11-16 18:15:46,1,2,0.5,3,4\n",
        "utf-8",
    )
    with pytest.raises(TraceError, match=r"azure and vidur both fit the content.*--format"):
        read_trace(path)
    trace = read_trace(path, format="vidur")
    assert trace.prompt_tokens.tolist() == [3]
    assert trace.receipt is not None
    assert "columns not used: TIMESTAMP, ContextTokens, GeneratedTokens" in trace.receipt.notes


def test_none_that_fits_shows_the_first_line_and_the_choices(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("when,how_long\n1,2\n", "utf-8")
    with pytest.raises(TraceError, match=r"no known format fits.*'when,how_long'.*azure, vidur"):
        read_trace(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("arrival_ns,promt_tokens,output_tokens\n0,1,1\n", "'promt_tokens' .* 'prompt_tokens'"),
        ('{"arrival_n": 0, "prompt_tokens": 1, "output_tokens": 1}', "'arrival_n' .* 'arrival_ns'"),
    ],
)
def test_a_misspelt_column_of_the_own_format_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(TraceError, match=rf"{told} of kvsim's own format\); known formats"):
        read_trace(path)


def test_a_file_of_no_format_is_told_what_the_own_one_needs(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("timestamp,prompt,output\n0,1,1\n", "utf-8")
    needs = "needs arrival_ns, prompt_tokens, output_tokens: docs/traces.md"
    with pytest.raises(
        TraceError, match=rf"'timestamp,prompt,output' \(kvsim's own format {needs}"
    ):
        read_trace(path)


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(
        TraceError,
        match=r"--format 'azur' is unknown .*'azure'.*: kvsim-csv, .*[0-9]+ in all",
    ):
        read_trace(DATA / "azure.csv", format="azur")


@pytest.mark.parametrize("name", format_names())
def test_a_forced_format_that_does_not_fit_is_one_sentence(name: str) -> None:
    for file, fitting in FORMATS.items():
        if fitting != name and (name, fitting) != ("aiperf", "mooncake"):  # a special case of it
            with pytest.raises(TraceError) as caught:
                read_trace(DATA / file, format=name)
            assert "\n" not in str(caught.value)


def test_a_first_line_longer_than_the_head_is_known_by_its_first_keys() -> None:
    line = '{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [' + "1, " * 999
    head = Head.of(line.encode())
    assert [reader.name for reader in READERS if reader.detect(head)] == ["mooncake"]


def test_bailian_is_not_taken_for_mooncake() -> None:
    line = '{"chat_id": 1, "timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}'
    head = Head.of(line.encode())
    assert not any(reader.detect(head) for reader in READERS)
