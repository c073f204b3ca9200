"""Statistics: known answers, and the public traces' own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.traces import Receipt, Trace, read_trace
from kvsim.traces.trace.statistics import length_histogram, statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def make_trace(arrivals_s: list[float], **columns: Any) -> Trace:
    count = len(arrivals_s)
    ones = np.ones(count, dtype=np.int64)
    arrival_ns = np.array([round(second * 1e9) for second in arrivals_s], dtype=np.int64)
    return Trace("made-up", arrival_ns, columns.pop("prompt", ones), ones, **columns)


# rows, prompt mean / p50 / p99 / max, output the same, rate, CV; p90 of both where it is told
TABLE = {
    "azure-llm-2023/AzureLLMInferenceTrace_conv.csv": (
        19_366, (1154.7, 1020, 4142, 14050), (211.1, 129, 601, 1000), 5.530, 1.094, (2735, 424)
    ),
    "mooncake-fast25/conversation_trace.first45min.jsonl.gz": (
        8_940, (12224.3, 7112, 87237, 124847), (347.1, 355, 1183, 2000), 3.311, 2.989, None
    ),
    "kv-cache-tester/traces_dev.jsonl.gz": (
        6_472, (112892.3, 97617, 522495, 880502), (440.5, 230, 3732, 9183), None, None, None
    ),
    "etalon/sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz": (
        30_731, (2340.0, 1730, 7434, 8141), (438.7, 415, 998, 1024), None, None, (5696, 834)
    ),
    "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz": (
        28_257, (2588.1, 2730, 3933, 4054), (291.4, 167, 3271, 4056), None, None, (3702, 372)
    ),
    "apex/llama_lmsys_05.lengths.jsonl.gz": (
        1_024, (61.7, 17, 586, 1037), (162.1, 117, 533, 761), 0.506, 0.998, (177, 389)
    ),
    "llmservingsim/sharegpt-llama-3.1-8b-300-sps10.blocks16.jsonl.gz": (
        300, (857.5, 732, 2765, 3998), (652.5, 632, 784, 1021), 10.30, 0.942, (1460, 770)
    ),
    "llmservingsim/workload_me2_01_mixed.jsonl": (
        608, (9217.8, 2910, 28447, 31383), (3021.4, 874, 15039, 15890), 9.984, 0.992, None
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", TABLE)
def test_the_check_tables(public_trace: Callable[[str], Trace], file: str) -> None:
    """Of ``shared/traces/README.md`` and of validation-targets section 6."""
    rows, prompt, output, rate, variation, p90 = TABLE[file]
    statistics = statistics_of(public_trace(file))
    assert statistics.rows == statistics.requests == rows
    assert statistics.zero_outputs == (6 if "kv-cache-tester" in file else 0)
    assert statistics.output is not None
    for ours, wanted in ((statistics.prompt, prompt), (statistics.output, output)):
        assert round(ours.mean, 1) == wanted[0]
        for value, figure in zip((ours.p50, ours.p99, ours.max), wanted[1:], strict=True):
            assert abs(value - figure) <= 0.5
    if p90 is not None:
        for value, figure in zip((statistics.prompt.p90, statistics.output.p90), p90, strict=True):
            assert abs(value - figure) <= 0.5
    arrivals = statistics.arrivals
    if rate is None:
        assert arrivals is None
        return
    assert arrivals is not None
    assert arrivals.rate_per_s is not None
    assert float(f"{arrivals.rate_per_s:.4g}") == pytest.approx(rate, abs=5e-4)
    assert round(arrivals.gap_cv or 0, 3) == variation


@pytest.mark.parametrize(
    ("file", "span", "by_second", "by_minute"),
    [
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", 3501.7, 1.39, 20.6),
        ("apex/llama_lmsys_05.lengths.jsonl.gz", 2023.5, 1.01, 0.82),
    ],
)
def test_dispersion(
    shared: Path, file: str, span: float, by_second: float, by_minute: float
) -> None:
    arrivals = statistics_of(read_trace(shared / "traces" / file)).arrivals
    assert arrivals is not None
    assert round(arrivals.span_s, 1) == span
    assert round(arrivals.iod[1], 2) == by_second
    assert float(f"{arrivals.iod[60]:.3g}") == pytest.approx(by_minute, abs=0.05 * by_minute**0.5)
    assert f"{arrivals.iod[60]:.3g}".startswith(str(by_minute)[:4])


def test_failed_rows_count(shared: Path) -> None:
    file = shared / "traces/format-samples/llmperf/lepton_7b.json.gz"
    statistics = statistics_of(read_trace(file, keep_unusable=True))
    assert (statistics.rows, statistics.requests, statistics.failed) == (150, 20, 130)


def test_even_gaps_have_no_variation_and_pairs_do() -> None:
    even = statistics_of(make_trace([float(second) for second in range(11)])).arrivals
    assert even is not None
    assert (even.span_s, even.rate_per_s, even.gap_cv) == (10.0, 1.1, 0.0)
    assert even.iod == {1: 0.0}  # the span is no minute
    pairs = statistics_of(make_trace([0, 0, 4, 4])).arrivals
    assert pairs is not None
    assert pairs.gap_cv == pytest.approx(2**0.5)
    counts = np.array([2, 0, 0, 0, 2])
    assert pairs.iod[1] == pytest.approx(counts.var() / counts.mean())


def test_what_times_cannot_tell() -> None:
    together = statistics_of(make_trace([3, 3])).arrivals
    assert together is not None
    assert (together.span_s, together.rate_per_s, together.gap_cv, together.iod) == (
        0,
        None,
        None,
        {},
    )
    at_once = make_trace([0, 0, 1], session=["a", "b", "a"])
    assert statistics_of(at_once).arrivals is None
    assert statistics_of(at_once).sessions == 2
    one = make_trace([0, 1], session=["a", "a"])
    assert statistics_of(one).arrivals is not None


def test_receipt_figures_are_taken_over() -> None:
    receipt = Receipt("x", "x", "s", rows_read=9, has_outputs=False, has_times=False)
    receipt.failed["429"] = (4, 1)
    receipt.skipped["bad"] = (3, 2)
    statistics = statistics_of(make_trace([0, 0], receipt=receipt))
    assert (statistics.rows, statistics.requests) == (9, 2)
    assert (statistics.failed, statistics.skipped, statistics.zero_outputs) == (4, 3, 0)
    assert statistics.output is None
    assert statistics.arrivals is None


def test_histogram_classes_end_at_1_2_5() -> None:
    tokens = np.array([1, 3, 5, 6, 10, 11, 200])
    classes = [(5, 2), (10, 2), (20, 1), (50, 0), (100, 0), (200, 1)]
    assert length_histogram(tokens) == [(1, 1), (2, 0), *classes]
    assert length_histogram(np.array([0])) == [(1, 1)]
