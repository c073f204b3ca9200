"""Any trace through kvsim's own format, in all containers: nothing is lost."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kvsim.traces import Trace, read_trace, write_trace
from kvsim.traces.trace.trace import PrefixIds

DATA = Path(__file__).parents[1] / "data"
NEEDS: dict[str, Any] = {
    "vidur_lengths.csv": {"arrivals": "rate=2"},
    "vidur_prompts.csv": {"output_tokens": "8"},
    "tair_tokens.jsonl": {"output_tokens": "8"},
    "vllm_bench_no_times.json": {"arrivals": "rate=4"},
    "llmperf.json": {"arrivals": "rate=4"},
    "kv_cache_tester.jsonl": {"session_starts": "rate=0.5"},
    "kv_cache_tester_one.json": {"session_starts": "rate=0.5"},
    "tracelab_no_times.csv": {"session_starts": "rate=0.5"},
}
FILES = [
    "azure_2024.csv", "vidur.csv", "vidur_lengths.csv", "vidur_prompts.csv", "mooncake.jsonl",
    "golden.json", "aiperf.jsonl", "aiperf_sessions.jsonl", "arctic.jsonl", "bailian.jsonl",
    "burstgpt.csv", "burstgpt_2.csv", "kv_cache_tester.jsonl", "kv_cache_tester_one.json",
    "apex.jsonl", "llmservingsim_blocks.jsonl", "llmservingsim.jsonl",
    "llmservingsim_measured.jsonl", "tracelab.csv", "tracelab_no_times.csv",
    "tracelab_rounds.jsonl", "fleet_sim.csv", "fleet_sim.jsonl", "aibrix.jsonl",
    "tair_tokens.jsonl", "aiperf_export.jsonl", "guidellm.json", "llmperf.json",
    "inference_perf.json", "vllm_bench.json", "vllm_bench_no_times.json", "otel.json",
    "otel_otlp.jsonl", "servegen", "own.csv",
]  # fmt: skip


def contents(trace: Trace) -> dict[str, object]:
    """All that a trace says, as plain values; where it was read from is left out."""
    values: dict[str, object] = {}
    for field in fields(Trace):
        if field.name in {"sha256", "receipt", "ids"}:
            continue
        value = getattr(trace, field.name)
        if isinstance(value, PrefixIds):
            lists = (value.offsets.tolist(), value.ids.tolist())
            value = (value.block_size, value.covers_output, value.scope, *lists)
        values[field.name] = value.tolist() if hasattr(value, "tolist") else value
    values["ids"] = [trace.request_id(index) for index in range(len(trace))]
    return values


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_lost(tmp_path: Path, file: str) -> None:
    trace = read_trace(DATA / file, on_bad_row="skip", **NEEDS.get(file, {}))
    for suffix in (".csv", ".jsonl.gz", ".parquet"):
        path = tmp_path / f"trace{suffix}"
        write_trace(trace, path)
        assert contents(read_trace(path)) == contents(trace)
