"""The public traces beside the checkout: rows, means and percentiles of their own check table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.traces import TraceError, apply_output_ids, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.traces import Trace

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
    assert "901 distinct times for 8,940 requests: the 3 s grid changes p99 TTFT" in text
    assert trace.prefix is not None
    assert (trace.prefix.ids[trace.prefix.offsets[:-1]] == 0).all()  # all share block 0


def test_lengths_alone_are_refused(shared: Path) -> None:
    with pytest.raises(TraceError, match=r"has no arrival times.*--rate R.*--arrivals"):
        read_trace(
            shared / "traces/vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz"
        )


def test_every_golden_trace_is_read(shared: Path) -> None:
    files = sorted(shared.glob("golden/vllm*/traces/*.json.gz"))
    assert len(files) == 49
    for file in files:
        trace = read_trace(file)
        assert trace.receipt is not None
        assert trace.receipt.format == "golden"
        assert not trace.receipt.skipped
        assert file.name.startswith(trace.name)


SHAREGPT = "llmservingsim/sharegpt-llama-3.1-8b-300-sps10.blocks16.jsonl.gz"
ARXIV = "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "requests", "prompt", "output", "rate", "variation"),
    [
        ("apex/llama_lmsys_05.lengths.jsonl.gz", 1024, (61.7, 17, 586, 1037),
         (162.1, 117, 533, 761), 0.506, 0.998),
        (SHAREGPT, 300, (857.5, 732, 2765, 3998), (652.5, 632, 784, 1021), 10.30, 0.942),
        ("llmservingsim/workload_me2_01_mixed.jsonl", 608, (9217.8, 2910, 28447, 31383),
         (3021.4, 874, 15039, 15890), 9.984, 0.992),
        ("etalon/sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz", 30731,
         (2340.0, 1730, 7434, 8141), (438.7, 415, 998, 1024), None, None),
        (ARXIV, 28257, (2588.1, 2730, 3933, 4054), (291.4, 167, 3271, 4056), None, None),
        ("kv-cache-tester/traces_dev.jsonl.gz", 6472, (112892.3, 97617, 522495, 880502),
         (440.5, 230, 3732, 9183), None, None),
    ],
)  # fmt: skip
def test_more_of_the_check_table(
    public_trace: Callable[[str], Trace],
    file: str,
    requests: int,
    prompt: tuple[float, ...],
    output: tuple[float, ...],
    rate: float | None,
    variation: float | None,
) -> None:
    trace = public_trace(file)
    assert len(trace) == requests
    for values, figures in ((trace.prompt_tokens, prompt), (trace.output_tokens, output)):
        assert round(float(values.mean()), 1) == figures[0]
        assert np.percentile(values, [50, 99, 100]) == pytest.approx(figures[1:], abs=0.51)
    assert trace.receipt is not None
    if rate is None or variation is None:
        assert trace.receipt.has_times == (trace.receipt.format == "kv-cache-tester")
        return
    gaps = np.diff(trace.arrival_ns)
    assert len(trace) / (int(trace.arrival_ns[-1]) / 1e9) == pytest.approx(rate, abs=0.005)
    assert float(gaps.std() / gaps.mean()) == pytest.approx(variation, abs=0.0005)


@pytest.mark.slow
def test_agent_sessions(shared: Path) -> None:
    """444 streamed calls have no end of their own, six answers are empty, two sessions are one."""
    file = shared / "traces/kv-cache-tester/traces_dev.jsonl.gz"
    trace = read_trace(file, session_starts="poisson(rate=0.02)", on_bad_row="skip")
    receipt = trace.receipt
    assert receipt is not None
    assert receipt.skipped == {"out is 0: no output": (6, 12)}
    assert "sessions equal but for their id: trace_0397 and trace_0410" in receipt.notes
    assert receipt.early_turns < 10
    assert trace.prefix is not None
    assert trace.session is not None
    owner: dict[int, str] = {}
    bounds = trace.prefix.offsets.tolist()
    for index in range(0, len(trace), 7):
        for block in trace.prefix.ids[bounds[index] : bounds[index + 1] : 500].tolist():
            assert owner.setdefault(block, trace.session[index]) == trace.session[index]
    inferred = apply_output_ids(trace, "next-turn")
    assert inferred.receipt is not None
    assert inferred.receipt.notes[-1].startswith("outputs of 5,")


def test_measured_requests_are_those_of_the_trace(shared: Path) -> None:
    folder = shared / "traces/llmservingsim"
    measured = read_trace(folder / "vllm-measured/RTX4090/Llama-3.1-8B/requests.jsonl")
    trace = read_trace(folder / SHAREGPT.partition("/")[2])
    assert measured.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert measured.output_tokens.tolist() == trace.output_tokens.tolist()
    assert trace.prefix is not None
    covered = -(-(trace.prompt_tokens + trace.output_tokens) // 16)
    assert np.diff(trace.prefix.offsets).tolist() == covered.tolist()


def test_reasoning_clients(shared: Path) -> None:
    trace = read_trace(shared / "traces/servegen/deepseek-r1", limit=20_000)
    assert trace.user is not None
    assert len(set(trace.user)) > 10
    with pytest.raises(TraceError, match=r"about 153,417,6.. requests, .*--limit 1000000"):
        read_trace(shared / "traces/servegen/m-small")


SAMPLES: dict[str, str | int] = {
    "aibrix/ten_requests.notext.jsonl": 10,
    "aiperf/precise_schedule.jsonl": 8,
    "aiperf/production_trace.jsonl": "line 3: hash_ids has 3 ids for input_length 1024",
    "aiperf/profile_export_examples.jsonl": "the request failed .RequestCancellationError",
    "arctic-inference/example_trace.jsonl": 6,
    "burstgpt/burstgpt_1_first5.csv": 5,
    "burstgpt/burstgpt_3_first4.csv": 4,
    "fleet-sim/azure_cdf.json": "a distribution of total lengths",
    "fleet-sim/batch_spike_requests.csv": 288,
    "fleet-sim/generic_chat_mix.jsonl": 240,
    "fleet-sim/lmsys_cdf.json": "a distribution of total lengths",
    "fleet-sim/router_decisions.semantic_router.jsonl": 240,
    "guidellm/guidellm_report_v2.json.gz": "a guidellm report without requests",
    "inference-perf/stage_1_lifecycle_metrics.json": "a summary of inference-perf",
    "llmperf/lepton_7b.json.gz": "has no arrival times",
    "llmperf/together_7b.json.gz": "has no arrival times",
    "otel/fan_in_dependencies.json": "no token counts",
    "otel/prefix_sharing_example.json": 7,
    "otel/simple_chain.json": "no token counts",
    "qwen-bailian/documentation_examples.jsonl": 3,
    "tair-kvcache/optimizer_trace_example_trace.jsonl": "a log of cache queries",
    "tair-kvcache/tokenids_example_trace.jsonl": "--output-tokens",
}


def test_every_sample_is_read_or_refused_by_name(shared: Path) -> None:
    folder = shared / "traces/format-samples"
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert found == set(SAMPLES)
    for name, expected in SAMPLES.items():
        if isinstance(expected, int):
            assert len(read_trace(folder / name)) == expected
        else:
            with pytest.raises(TraceError, match=expected):
                read_trace(folder / name)


def test_failed_requests_of_llmperf_are_counted(shared: Path) -> None:
    file = shared / "traces/format-samples/llmperf/lepton_7b.json.gz"
    trace = read_trace(file, arrivals="poisson(rate=1)", on_bad_row="skip")
    assert len(trace) == 20
    assert trace.receipt is not None
    assert [count for count, _ in trace.receipt.failed.values()] == [130]


@pytest.mark.parametrize(
    ("file", "rows"),
    [("multi_session_example.csv", 8), ("multi_session_large.csv", 303),
     ("session_workload_example.csv", 11), ("round_trace.sanitized.jsonl", 19)],
)  # fmt: skip
def test_tracelab(shared: Path, file: str, rows: int) -> None:
    trace = read_trace(shared / "traces/tracelab" / file)
    assert len(trace) == rows
    assert trace.prefix is not None
    assert trace.prefix.covers_output
