"""The public formats on their miniatures: every column, by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvsim.traces import Trace, TraceError, read_trace

DATA = Path(__file__).parents[2] / "data"
S = 10**9
MS = 10**6
OPTIONS: dict[str, dict[str, Any]] = {
    "vidur_lengths.csv": {"arrivals": "rate=2"},
    "vidur_prompts.csv": {"output_tokens": "8"},
    "burstgpt.csv": {"on_bad_row": "skip"},
    "kv_cache_tester.jsonl": {"session_starts": "rate=0.5", "on_bad_row": "skip"},
    "tracelab_no_times.csv": {"session_starts": "rate=0.5"},
    "tair_tokens.jsonl": {"output_tokens": "8"},
    "aiperf_export.jsonl": {"on_bad_row": "skip"},
    "guidellm.json": {"on_bad_row": "skip"},
    "llmperf.json": {"on_bad_row": "skip", "arrivals": "rate=4"},
    "inference_perf.json": {"on_bad_row": "skip"},
    "vllm_bench.json": {"on_bad_row": "skip"},
    "vllm_bench_no_times.json": {"arrivals": "rate=4"},
    "otel.json": {"on_bad_row": "skip"},
}
"""What a miniature needs to be read for a simulation."""
EXPECTED: dict[str, dict[str, Any]] = {
    "azure_2024.csv": {
        "arrival_ns": [0, 7_405_000, 990_070_000],
        "prompt_tokens": [2162, 2399, 76],
        "output_tokens": [5, 6, 15],
    },
    "vidur_lengths.csv": {"arrival_ns": [0, S // 2], "prompt_tokens": [3772, 2015]},
    "vidur_prompts.csv": {"arrival_ns": [0, 250 * MS], "output_tokens": [8, 8]},
    "aiperf.jsonl": {
        "arrival_ns": [0, 120 * MS, 350_500_000],
        "prefix": (512, False, "global", [[], [1, 2, 3], [1, 2]]),
    },
    "aiperf_sessions.jsonl": {
        "arrival_ns": [0, 0, 250 * MS],
        "session": ["a", "a", "b"],
        "turn": [0, 1, 0],
        "after_request": [-1, 0, -1],
        "delay_ns": [0, 500 * MS, 0],
        "has_time": [True, False, True],
        "prefix": (512, False, "global", [[1, 2], [1, 5, 6], []]),
    },
    "arctic.jsonl": {
        "arrival_ns": [0, 0, 15 * S],
        "prompt_tokens": [6758, 15, 7322],
        "output_tokens": [500, 3, 490],
        "prefix": None,
    },
    "bailian.jsonl": {
        "arrival_ns": [0, 6 * MS, 86 * MS, 8886 * MS],
        "session": ["7", "7", "9", "7"],
        "turn": [0, 1, 0, 2],
        "after_request": [-1, 0, -1, 1],
        "prefix": (16, False, "global", [[0, 1, 2], [0, 1, 3, 4, 5], [8, 9], []]),
    },
    "burstgpt.csv": {"arrival_ns": [0, 113 * S], "prompt_tokens": [472, 417], "session": None},
    "burstgpt_2.csv": {
        "arrival_ns": [0, S, 40 * S, 144 * S, 150_500 * MS],
        "session": ["s-1", "s-2", "s-1", "s-1", ""],
        "turn": [0, 0, 1, 2, 0],
        "after_request": [-1, -1, 0, 2, -1],
        "delay_ns": [0, 0, 0, 96 * S, 0],
    },
    "kv_cache_tester.jsonl": {
        # t1 at 0 with a sub-agent from 9.5 - 6.5 = 3 s on; t2 at 2 s, its sub-agent at 9 - 4 = 5 s
        "arrival_ns": [0, 2 * S, 3 * S, 5 * S, 7 * S, 10 * S],
        "prompt_tokens": [130, 130, 64, 128, 64, 260],
        "output_tokens": [70, 70, 3, 4, 3, 5],
        "session": ["t1", "t2", "t1", "t1", "t2", "t1"],
        "turn": [0, 0, 0, 1, 0, 1],
        # the request at 10 s follows the sub-agent's last call, which ended at 6 s
        "after_request": [-1, -1, 0, 2, 1, 3],
        "delay_ns": [0, 0, S // 2, S, 2_500 * MS, 4 * S],
        "prefix": (64, False, "session", [[0, 1], [10, 11], [8], [8, 9], [11], [0, 1, 2, 3]]),
    },
    "kv_cache_tester_one.json": {"arrival_ns": [0, 5 * S], "after_request": [-1, 0]},
    "apex.jsonl": {"arrival_ns": [0, 1_302_313_191], "ids": ["aa", "bb"]},
    "llmservingsim_blocks.jsonl": {
        "arrival_ns": [0, 101],
        "prefix": (16, True, "global", [[0, 2, 3], [0, 4, 5]]),
    },
    "llmservingsim.jsonl": {
        "arrival_ns": [0, 1000, 1500],
        "prefix": (1, True, "global", [[1, 2, 3, 11, 12], [1, 2, 9, 9, 7], []]),
    },
    "llmservingsim_measured.jsonl": {
        "arrival_ns": [0, 265_091_400],
        "prompt_tokens": [2358, 1034],
        "ids": ["bench-0", "bench-1"],
    },
    "tracelab.csv": {
        "arrival_ns": [0, 0, 0, 200 * MS, 200 * MS],
        "prompt_tokens": [512, 704, 896, 400, 400],
        "after_request": [-1, 0, 1, -1, 3],
        "delay_ns": [0, 100 * MS, 100_500_000, 0, 80 * MS],
        "has_time": [True, False, False, True, False],
    },
    "tracelab_no_times.csv": {
        "arrival_ns": [0, 0, 2 * S],
        "session": ["0", "0", "1"],
        "has_time": [True, False, True],
    },
    "tracelab_rounds.jsonl": {
        "arrival_ns": [0, 849 * MS, 11_236 * MS],
        "ids": ["m1", "m3", "m2"],
        "after_request": [-1, -1, 0],
        "delay_ns": [0, 0, 1_500 * MS],
        "prefix": (16, True, "session", [[0, 1, 2, 3], [5, 6], [0, 1, 2, 3, 4]]),
    },
    "fleet_sim.csv": {"arrival_ns": [0, 0, 12 * MS], "prompt_tokens": [689, 231, 1761]},
    "fleet_sim.jsonl": {"arrival_ns": [0, 165 * MS], "output_tokens": [161, 41]},
    "aibrix.jsonl": {
        "arrival_ns": [0, 0, 634 * MS],
        "prompt_tokens": [909, 5, 713],
        "output_tokens": [22, 2, 19],
    },
    "tair_tokens.jsonl": {
        "arrival_ns": [0, 5_123_456_000],
        "prompt_tokens": [3, 4],
        "output_tokens": [8, 8],
        "prefix": (1, False, "global", [[30594, 303, 11458], [30594, 303, 7, 8]]),
    },
    "aiperf_export.jsonl": {
        "arrival_ns": [0, 363, 1_305_864_604],
        "ids": ["q1", "q2", "q3"],
        "session": ["d", "c", "c"],
        "after_request": [-1, -1, 1],
        "delay_ns": [0, 0, S],
    },
    "guidellm.json": {
        "arrival_ns": [0, 1_250 * MS, 18_750 * MS],
        "prompt_tokens": [20, 30, 5],
        "output_tokens": [3, 4, 6],
        "ids": ["g1", "g2", "g4"],
    },
    "llmperf.json": {"arrival_ns": [0, 250 * MS], "output_tokens": [151, 51]},
    "inference_perf.json": {"arrival_ns": [0, 250 * MS], "prompt_tokens": [10, 12]},
    "vllm_bench.json": {"arrival_ns": [0, 500 * MS], "prompt_tokens": [20, 10]},
    "vllm_bench_no_times.json": {"arrival_ns": [0, 250 * MS], "prompt_tokens": [10, 20]},
    "otel.json": {
        "arrival_ns": [0, 3 * S],
        "prompt_tokens": [50, 90],
        "session": ["c1", "c1"],
        "user": None,
        "after_request": [-1, 0],
        "delay_ns": [0, S // 2],
    },
    "otel_otlp.jsonl": {
        "arrival_ns": [0, 3 * S + 1],
        "session": ["talk", "talk"],
        "user": ["u-81", "17"],
        "after_request": [-1, 0],
    },
}


def id_lists(trace: Trace) -> list[list[int]]:
    assert trace.prefix is not None
    ids = trace.prefix.ids.tolist()
    return [ids[start:end] for start, end in pairwise(trace.prefix.offsets.tolist())]


@pytest.mark.parametrize("file", EXPECTED)
def test_columns(file: str) -> None:
    trace = read_trace(DATA / file, **OPTIONS.get(file, {}))
    for name, expected in EXPECTED[file].items():
        value = getattr(trace, name)
        if name == "prefix" and expected is not None:
            assert value is not None
            form = (value.block_size, value.covers_output, value.scope)
            assert (*form, id_lists(trace)) == expected
        else:
            found = value.tolist() if hasattr(value, "tolist") else value
            assert found == expected, name


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("vidur_lengths.csv", "has no arrival times.*--rate R.*--arrivals"),
        ("llmperf.json", "llmperf's result .* has no arrival times.*--rate R"),
        ("vllm_bench_no_times.json", "it has no start_times.*--rate R"),
        ("vidur_prompts.csv", "'num_decode_tokens' is missing.*--output-tokens N"),
        ("tair_tokens.jsonl", "'output_len' is missing.*--output-tokens N"),
        ("kv_cache_tester.jsonl", "has no starts of sessions.*--session-rate R"),
        ("tracelab_no_times.csv", "has no starts of sessions.*--session-rate R"),
        ("burstgpt.csv", "line 3: Response tokens is 0; .*--on-bad-row skip"),
        ("aiperf_export.jsonl", r"line 5: the request failed \(RequestCancellationError\)"),
        ("guidellm.json", r"request 3: the request failed \(errored\).*--on-bad-row skip"),
        ("inference_perf.json", r"record 3: the request failed \(ClientError\)"),
        ("vllm_bench.json", r"request 3: the request failed \(TimeoutError: no answer\)"),
        ("otel.json", r"span 4: the request failed \(the span says timeout\)"),
        ("guidellm_empty.json", "a guidellm report without requests"),
        ("otel_no_counts.json", "these OpenTelemetry spans have no token counts"),
        ("length_cdf.json", r"a distribution of total lengths .* it has no requests"),
        ("cache_queries.jsonl", "a log of cache queries .* no output lengths"),
        ("inference_perf_summary.json", "a summary of inference-perf .* no single requests"),
    ],
)
def test_what_is_missing_or_failed_is_refused_by_name(file: str, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_trace(DATA / file)


def test_statistics_count_every_row() -> None:
    trace = read_trace(DATA / "burstgpt.csv", keep_unusable=True)
    assert trace.output_tokens.tolist() == [18, 0, 276]
    assert trace.receipt is not None
    assert trace.receipt.unusable == {"Response tokens is 0: no output": (1, 3)}
    failed = read_trace(DATA / "llmperf.json", keep_unusable=True).receipt
    assert failed is not None
    assert failed.failed == {"the file calls it failed (error_code 429)": (1, 2)}
    assert (failed.rows_read, failed.num_requests, failed.has_times) == (3, 2, False)
    prompts = read_trace(DATA / "tair_tokens.jsonl", keep_unusable=True)
    assert prompts.output_tokens.tolist() == [0, 0]
    assert prompts.receipt is not None
    assert not prompts.receipt.has_outputs
    sessions = read_trace(DATA / "kv_cache_tester.jsonl", keep_unusable=True).receipt
    assert sessions is not None
    assert sessions.unusable == {"out is 0: no output": (1, 1)}
    assert sessions.time_grid_ns is None  # ties between sessions mean nothing


def test_a_round_shares_the_stated_prefix_with_the_one_before() -> None:
    chains = id_lists(read_trace(DATA / "tracelab.csv"))
    assert [len(chain) for chain in chains] == [36, 48, 60, 28, 28]  # (prompt + answer) / 16
    assert chains[1][:36] == chains[0]  # prefix 576 = 512 + 64
    assert chains[2][:48] == chains[1]
    assert not set(chains[3]) & {block for chain in chains[:3] for block in chain}
    shared = [one == two for one, two in zip(chains[3], chains[4], strict=True)]
    assert shared == [True] * 18 + [False] * 10  # prefix 300 = 18 full blocks and a bit


def test_receipt_tells_early_turns_and_epoch() -> None:
    burst = read_trace(DATA / "burstgpt_2.csv").receipt
    assert burst is not None
    assert burst.early_turns == 1  # 40 s after its parent, which took 43 s
    assert "1 arrive before the previous output could have ended" in " ".join(burst.lines())
    rounds = read_trace(DATA / "tracelab_rounds.jsonl").receipt
    assert rounds is not None
    assert (rounds.early_turns, rounds.epoch) == (
        0,
        "the first is at 2026-06-01 05:40:20.151 UTC",
    )
    assert "full blocks" in " ".join(rounds.lines())


def test_sessions_equal_but_for_their_id_are_noted(tmp_path: Path) -> None:
    line = (DATA / "kv_cache_tester.jsonl").read_text("utf-8").splitlines()[1]
    path = tmp_path / "two.jsonl"
    path.write_text(f"{line}\n{line.replace('t2', 't3')}\n", "utf-8")
    receipt = read_trace(path, session_starts="rate=1").receipt
    assert receipt is not None
    assert "sessions equal but for their id: t2 and t3" in receipt.notes
    path.write_text(f"{line}\n{line}\n", "utf-8")
    with pytest.raises(TraceError, match="line 2: id 't2' is also that of line 1"):
        read_trace(path, session_starts="rate=1")


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("azure_2024.csv", "01+00:00", "01", "line 4: TIMESTAMP .* before it are with a zone"),
        (
            "fleet_sim.csv",
            "0.542",
            "1787267980.5",
            "the file seems to have two epochs or two time units",
        ),
        ("apex.jsonl", "505", "506", r"TotalTokens is 506, but .* 115 \+ 390 = 505"),
        ("burstgpt_2.csv", "1902", "1903", "Total tokens is 1903"),
        ("bailian.jsonl", "[0, 1, 2]", "[0, 1]", "hash_ids has 2 ids for input_length 40; .* 3"),
        ("bailian.jsonl", '"chat_id": 9', '"chat_id": 7', "line 3: chat_id 7 is also that"),
        ("kv_cache_tester_one.json", '"in": 64', '"in": 640', "exactly 10 .one id for each 64"),
        ("llmservingsim_blocks.jsonl", "[2, 3]", "[2]", "output_hash_ids has 1 ids"),
        ("tracelab_rounds.jsonl", '"prefix_tokens": 64', '"prefix_tokens": 6', r"6 \+ 16 = 22"),
        ("llmperf.json", "601", "602", "number_total_tokens is 602"),
        ("arctic.jsonl", "6758", '"6,758"', "input_length is '6,758'"),
        ("vllm_bench.json", "[10, 20, 30]", "[10, 20]", "lists differ in length: input_lens 2"),
    ],
)
def test_contradictions_stop_the_read(
    tmp_path: Path, file: str, old: str, new: str, sentence: str
) -> None:
    text = (DATA / file).read_text("utf-8")
    assert old in text
    path = tmp_path / file
    path.write_text(text.replace(old, new, 1), "utf-8")
    options = {"on_bad_row": "stop"} | {
        name: value for name, value in OPTIONS.get(file, {}).items() if name != "on_bad_row"
    }
    options["keep_unusable"] = file == "llmperf.json"  # it has a failed row before
    with pytest.raises(TraceError, match=sentence):
        read_trace(path, **options)
