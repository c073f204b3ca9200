"""The public traces beside the checkout: rows, means and percentiles of their own check table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.traces import TraceError, read_trace

if TYPE_CHECKING:
    from pathlib import Path

# requests, prompt mean / median / p99 / max, output mean / median / p99 / max, rate, CV of gaps
AZURE = (19_366, (1154.7, 1020, 4142, 14050), (211.1, 129, 601, 1000), 5.530, 1.094)
MOONCAKE = (8_940, (12224.3, 7112, 87237, 124847), (347.1, 355, 1183, 2000), 3.311, 2.989)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", AZURE),
        ("vidur/splitwise_conv.csv.gz", AZURE),
        ("mooncake-fast25/conversation_trace.first45min.jsonl.gz", MOONCAKE),
    ],
)
def test_the_check_table(
    shared: Path,
    file: str,
    expected: tuple[int, tuple[float, ...], tuple[float, ...], float, float],
) -> None:
    trace = read_trace(shared / "traces" / file)
    requests, prompt, output, rate, variation = expected
    assert len(trace) == requests
    for values, figures in ((trace.prompt_tokens, prompt), (trace.output_tokens, output)):
        assert round(float(values.mean()), 1) == figures[0]
        assert np.round(np.percentile(values, [50, 99, 100])).tolist() == list(figures[1:])
    gaps = np.diff(trace.arrival_ns)
    assert round(len(trace) / (int(trace.arrival_ns[-1]) / 1e9), 3) == rate
    assert round(float(gaps.std() / gaps.mean()), 3) == variation


def test_azure_and_vidur_tell_the_same_times(shared: Path) -> None:
    azure = read_trace(shared / "traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv")
    vidur = read_trace(shared / "traces/vidur/splitwise_conv.csv.gz")
    assert azure.arrival_ns.tolist() == vidur.arrival_ns.tolist()


def test_mooncake_times_lie_on_a_3_s_grid(shared: Path) -> None:
    file = "mooncake-fast25/conversation_trace.first45min.jsonl.gz"
    trace = read_trace(shared / "traces" / file)
    assert trace.receipt is not None
    text = " ".join(" ".join(trace.receipt.lines()).split())
    assert "901 distinct times for 8,940 requests: p99 TTFT is shaped by the 3 s grid" in text
    assert trace.prefix is not None
    assert (trace.prefix.ids[trace.prefix.offsets[:-1]] == 0).all()  # all share block 0


def test_lengths_alone_are_refused(shared: Path) -> None:
    with pytest.raises(
        TraceError, match=r"says nothing about when requests arrive.*--rate R.*--arrivals"
    ):
        read_trace(
            shared / "traces/vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz"
        )


def test_every_golden_trace_is_read(shared: Path) -> None:
    files = sorted(shared.glob("golden/vllm*/traces/*.json.gz"))
    assert len(files) == 21
    for file in files:
        trace = read_trace(file)
        assert trace.receipt is not None
        assert trace.receipt.format == "golden"
        assert not trace.receipt.skipped
        assert file.name.startswith(trace.name)


def test_no_other_public_trace_is_misread(shared: Path) -> None:
    """To be replaced."""
    for file in sorted((shared / "traces/format-samples").rglob("*")):
        if file.suffix in {".csv", ".jsonl", ".json"} and file.parent.name not in {"aiperf"}:
            try:
                trace = read_trace(file)
            except TraceError:
                continue
            assert trace.receipt is not None
            raise AssertionError(f"{file} was read as {trace.receipt.format}")
