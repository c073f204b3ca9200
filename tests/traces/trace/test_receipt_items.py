"""Each thing that a receipt tells, on a file of which it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvsim.traces import TraceError, read_trace

DATA = Path(__file__).parents[2] / "data"
SKIP: dict[str, Any] = {"on_bad_row": "skip"}
INFO: dict[str, Any] = {"keep_unusable": True}


def receipt_of(file: Path, **options: Any) -> str:
    receipt = read_trace(file, **options).receipt
    assert receipt is not None
    return " ".join(" ".join(receipt.lines()).split())


@pytest.mark.parametrize(
    ("file", "options", "told"),
    [
        ("mooncake.jsonl", {}, "mooncake.jsonl (mooncake)"),
        ("burstgpt.csv", SKIP, "times in s;"),
        ("burstgpt.csv", SKIP, "the first is at 5 s by the file's clock"),
        ("azure_2024.csv", {}, "UTC"),
        ("mooncake.jsonl", {}, "ids 512 tokens each, scope global"),
        ("kv_cache_tester_one.json", {}, "ids 64 tokens each, scope session"),
        ("kv_cache_tester_one.json", {}, "full blocks; they cover prompts only"),
        ("mooncake.jsonl", {}, "the last block can be partial"),
        ("mooncake.jsonl", {}, "outputs without ids never hit, so the hit rate is a lower bound"),
        ("llmservingsim_blocks.jsonl", {}, "they cover prompts and outputs"),
        ("azure.csv", {}, "ids none: prompts and outputs are anonymous"),
        (
            "arctic.jsonl",
            {},
            "for 3 requests: the 15 s grid changes p99 TTFT",
        ),
        ("arctic.jsonl", {}, "--spread-ties spreads equal times"),
        ("burstgpt.csv", SKIP, "skipped 1: Response tokens is 0: no output (first: line 3)"),
        ("burstgpt.csv", INFO, "unusable 1: Response tokens is 0: no output (first: line 3)"),
        ("burstgpt.csv", INFO, "rows 3 read, 3 requests"),
        ("llmperf.json", INFO, "failed 1: the file calls it failed (error_code 429) (first:"),
        ("bailian.jsonl", {}, "turns 1 arrive before the previous output could have ended"),
        ("bailian.jsonl", {}, "1 turn follows a chat that the file does not hold"),
        ("tracelab.csv", {}, "turns have no arrival time"),
        ("vidur_lengths.csv", INFO, "times none in the file: a simulation needs --rate"),
        ("azure_bad_rows.csv", SKIP, "skipped"),
    ],
)
def test_it_is_told(file: str, options: dict[str, Any], told: str) -> None:
    assert told in receipt_of(DATA / file, **options)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("1,5,5\n1700000000,5,5", "line 3: arrived_at is .* two epochs or two time units"),
        ("1,-5,5", "line 2: num_prefill_tokens is '-5'"),
        ("1,,5", "line 2: num_prefill_tokens is missing"),
        ('1,"1,024",5', "line 2: num_prefill_tokens is '1,024'"),
        ("2,5,5\n1,5,5", "line 3: arrived_at is 1 s earlier than in the row above .* --sort"),
    ],
)
def test_contradictions_stop_the_read(tmp_path: Path, rows: str, sentence: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}\n")
    with pytest.raises(TraceError, match=sentence.replace(" .* ", ".*")):
        read_trace(file)


def test_ties_of_a_public_trace(shared: Path) -> None:
    told = receipt_of(shared / "traces/mooncake-fast25/conversation_trace.first45min.jsonl.gz")
    assert "901 distinct times for 8,940 requests: the 3 s grid changes p99 TTFT" in told
