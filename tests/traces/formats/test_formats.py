"""Each format on its miniature: exact columns, by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kvsim.traces import LENGTH, STOP, Trace, TraceError, read_trace
from kvsim.traces.formats.golden import canonical_sha256

DATA = Path(__file__).parents[2] / "data"


def id_lists(trace: Trace) -> list[list[int]]:
    assert trace.prefix is not None
    offsets, ids = trace.prefix.offsets.tolist(), trace.prefix.ids.tolist()
    return [ids[start:end] for start, end in pairwise(offsets)]


def receipt_text(trace: Trace) -> str:
    assert trace.receipt is not None
    return " ".join(" ".join(trace.receipt.lines()).split())


def test_azure_times_are_exact_across_midnight() -> None:
    trace = read_trace(DATA / "azure.csv")
    assert trace.arrival_ns.dtype == np.int64
    assert trace.arrival_ns.tolist() == [
        0, 4_314_579_000, 4_314_579_000, 20_653_319_409_000, 20_653_319_410_000,
    ]  # fmt: skip
    assert trace.prompt_tokens.tolist() == [374, 396, 879, 91, 2]
    assert trace.output_tokens.tolist() == [44, 109, 55, 16, 7]
    assert trace.name == "azure"
    assert (trace.max_tokens, trace.ends_by, trace.ids, trace.prefix) == (None,) * 4
    assert trace.request_id(4) == "r0004"
    text = receipt_text(trace)
    assert "4 distinct times for 5 requests (1 us grid)" in text
    assert "prompts and outputs are anonymous (they never hit)" in text
    assert "--assume-max-tokens" in text


def test_vidur_seconds_never_pass_through_a_float() -> None:
    trace = read_trace(DATA / "vidur.csv")
    assert trace.arrival_ns.tolist() == [
        0,
        4_064_579_000,
        4_291_877_000,
        4_750_000_000,
        9_750_000_000,
    ]
    assert trace.prompt_tokens.tolist() == [374, 396, 879, 91, 12]


def test_vidur_without_times_is_named_and_refused() -> None:
    with pytest.raises(
        TraceError, match=r"Vidur's and etalon's files .lengths only.*--rate.*--arrivals"
    ):
        read_trace(DATA / "vidur_lengths.csv")


def test_mooncake_ids_cover_the_prompt_only() -> None:
    trace = read_trace(DATA / "mooncake.jsonl")
    assert trace.arrival_ns.tolist() == [0, 0, 3_053_000_000, 6_053_500_000]
    assert trace.prefix is not None
    assert (trace.prefix.block_size, trace.prefix.covers_output) == (512, False)
    assert id_lists(trace) == [[46, 47, 48], [46], [46, 2353], [2354]]
    text = receipt_text(trace)
    assert "512 tokens each, scope global" in text
    assert "a prefix is the whole chain of ids, never one id" in text
    assert "outputs without ids never hit" in text


def test_mooncake_ids_that_contradict_the_length_stop_the_read() -> None:
    with pytest.raises(
        TraceError,
        match=r"mooncake_wrong_ids\.jsonl: line 2: hash_ids has 2 ids for input_length 1500; "
        r"allowed are exactly 3 .*--on-bad-row skip",
    ):
        read_trace(DATA / "mooncake_wrong_ids.jsonl")


def test_golden_keeps_its_zero_and_tells_stop_from_length() -> None:
    trace = read_trace(DATA / "golden.json")
    assert trace.arrival_ns.tolist() == [2000, 2000, 9007199254740993]  # no float holds the last
    assert trace.ids == ["r0000", "r0001", "r0002"]
    assert trace.max_tokens is not None
    assert trace.ends_by is not None
    assert trace.priority is not None
    assert trace.max_tokens.tolist() == [12, -1, 1]
    assert trace.ends_by.tolist() == [LENGTH, STOP, LENGTH]
    assert trace.priority.tolist() == [0, 2, 0]
    assert trace.prefix is not None
    assert (trace.prefix.block_size, trace.prefix.covers_output) == (16, True)
    assert id_lists(trace) == [[1, 2], [1, 2, 3], [9]]
    assert trace.receipt is not None
    assert trace.receipt.clipped == {"hash_ids beyond prompt and output": (1, 3)}


def test_canonical_sha256_ignores_layout() -> None:
    assert canonical_sha256({"b": 1, "a": [1, 2]}) == canonical_sha256({"a": [1, 2], "b": 1})


@pytest.mark.parametrize("file", ["own.csv", "own.jsonl", "own.parquet"])
def test_own_format_says_the_same_in_every_container(file: str) -> None:
    trace = read_trace(DATA / file)
    assert trace.name == "mini"
    assert trace.arrival_ns.tolist() == [5, 5, 1_000_000_007, 1_000_000_008]
    assert trace.prompt_tokens.tolist() == [33, 16, 50, 5]
    assert trace.output_tokens.tolist() == [10, 7, 1, 1]
    assert trace.ids == ["a", 'b, with "quotes"', "c", "d"]
    assert trace.session == ["alice", "bob", "alice", ""]
    numbers = {
        "max_tokens": [-1, 7, 64, -1],
        "ends_by": [STOP, LENGTH, STOP, LENGTH],
        "priority": [0, -1, 3, 0],
        "turn": [0, 0, 1, 0],
        "after_request": [-1, -1, 0, -1],
        "delay_ns": [0, 0, 900_000_000, 0],
        "num_samples": [1, 2, 1, 1],
        "beam_width": [1, 1, 4, 1],
    }
    for name, expected in numbers.items():
        assert getattr(trace, name).tolist() == expected, name
    assert id_lists(trace) == [[1, 2, 3], [1], [1, 2, 3, 9], []]


def test_own_format_without_metadata_counts_from_the_first_arrival() -> None:
    trace = read_trace(DATA / "own_plain.csv")
    assert trace.arrival_ns.tolist() == [0, 2]
    assert trace.name == "own_plain"


CSV = "arrival_ns,prompt_tokens,output_tokens"
GOLDEN = '{"requests": [%s], "trace_block_size": 16}'
GOLDEN_ROW = (
    '{"id": "a", "arrival_ns": 0, "prompt_len": 20, "output_len": 12, "hash_ids": [1, 2]%s}'
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{CSV},max_token\n0,1,1,5\n", "'max_token' is unknown .did you mean 'max_tokens'"),
        (f"{CSV},arrival_ns\n0,1,1,5\n", "'arrival_ns' occurs twice"),
        (f"{CSV},users\n0,1,1,ann\n", "'users' is unknown .did you mean 'user'"),
        (f"{CSV},max_tokens\n0,1,9,5\n", "max_tokens is 5 and output_tokens 9; allowed are -1"),
        (
            f"{CSV},max_tokens\n0,1,9,-2\n",
            r"max_tokens is '-2'; allowed are -1 \(not said\) and whole numbers from 1",
        ),
        (f"{CSV},ends_by\n0,1,9,eos\n", "ends_by is 'eos'; allowed are length and stop"),
        (f"{CSV},after_request\n0,1,9,0\n", "line 2: after_request is 0, which is no earlier"),
        (f"{CSV},after_request\n0,1,9,7\n", "line 2: after_request is 7, which is no earlier"),
        (f"{CSV},id\n0,1,9,x\n0,1,9,x\n", "line 3: id 'x' is also the id of line 2"),
        (f"{CSV},prefix_ids\n0,1,9,1\n", "needs metadata that says id_block_tokens"),
        (
            f'# kvsim-trace {{"id_block_tokens": 16}}\n{CSV},prefix_ids\n0,16,9,1 2\n',
            "line 3: prefix_ids has 2 ids for 16 tokens; allowed are at most 1",
        ),
        (
            f'# kvsim-trace {{"id_block_tokens": 16}}\n{CSV},prefix_ids\n0,16,9,1.5\n',
            "prefix_ids is '1.5'; allowed are 64-bit whole numbers",
        ),
        (f"# kvsim-trace {{\n{CSV}\n0,1,1\n", "line 1: metadata is not JSON"),
        (f"# kvsim-trace [1]\n{CSV}\n0,1,1\n", r"metadata \[1\] is not a JSON object"),
        (f'# kvsim-trace {{"scope": 1}}\n{CSV}\n0,1,1\n', "metadata key 'scope' is unknown"),
        (
            f'# kvsim-trace {{"id_block_tokens": {2**31}}}\n{CSV}\n0,1,1\n',
            "id_block_tokens is 2147483648; allowed: whole numbers from 1 to 2147483647",
        ),
        (
            (GOLDEN % (GOLDEN_ROW % "")).replace(": 16}", ": true}"),
            "trace_block_size is True; allowed are whole numbers from 1",
        ),
        (f'# kvsim-trace {{"version": 2}}\n{CSV}\n0,1,1\n', "version is 2; allowed: 1"),
        (
            f'# kvsim-trace {{"id_block_tokens": 1, "id_scope": "session"}}\n{CSV}\n0,1,1\n',
            "id_scope is 'session', but no row has one",
        ),
        (GOLDEN % (GOLDEN_ROW % ', "stop": 1'), "row 1: stop is 1; allowed are true and false"),
        (
            GOLDEN % (GOLDEN_ROW % ', "timeout_ns": -2'),
            "row 1: timeout_ns is -2; allowed are -1 .not said. and whole numbers from 0",
        ),
        (GOLDEN % (GOLDEN_ROW % "" + ", 7"), "row 2: the request is 7, no object"),
        (
            GOLDEN % (GOLDEN_ROW % "").replace("20", "200"),
            "row 1: hash_ids has 2 ids for 200 . 12 tokens; allowed are 14 or more",
        ),
        (
            (GOLDEN % (GOLDEN_ROW % "")).replace(": 16}", ": 0}"),
            "trace_block_size is 0; allowed are whole numbers from 1",
        ),
        ((GOLDEN % (GOLDEN_ROW % ""))[:-1], "the file is not one JSON document"),
        (GOLDEN % "", "the file has no requests"),
    ],
)
def test_contradictions_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "x"
    path.write_text(text, "utf-8")
    with pytest.raises(TraceError, match=sentence) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)


def test_a_golden_trace_says_who_gives_up_where_anybody_does(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rows = [GOLDEN_ROW % "", (GOLDEN_ROW % ', "timeout_ns": 5').replace('"a"', '"b"')]
    path.write_text(GOLDEN % rows[0], "utf-8")
    assert read_trace(path).timeout_ns is None
    path.write_text(GOLDEN % ", ".join(rows), "utf-8")
    patience = read_trace(path).timeout_ns
    assert patience is not None
    assert patience.tolist() == [-1, 5]


def test_session_scope_renames_equal_ids_of_two_sessions(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    metadata = '# kvsim-trace {"id_block_tokens": 4, "id_scope": "session"}'
    path.write_text(
        f"{metadata}\n{CSV},session,prefix_ids\n0,8,1,a,1 2\n0,8,1,b,1 2\n0,8,1,a,1 3\n", "utf-8"
    )
    (a_1, a_2), (b_1, b_2), (again, a_3) = id_lists(read_trace(path))
    assert again == a_1
    assert len({a_1, a_2, b_1, b_2, a_3}) == 5


@pytest.mark.parametrize("cell", ["true", "1.5", "[1]", '{"name": "ann"}'])
def test_a_user_is_text_or_a_whole_number(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.jsonl"
    row = '{"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1, "user": %s}\n'
    path.write_text("".join(row % user for user in ('"ann"', "17", "null", cell)), "utf-8")
    with pytest.raises(TraceError, match=r"line 4: user is .*; allowed are text and whole numbers"):
        read_trace(path)
    trace = read_trace(path, on_bad_row="skip")
    assert trace.user == ["ann", "17", ""]
    assert trace.session is None


def test_rows_without_an_optional_key_say_its_default(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = '{"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1%s}\n'
    path.write_text((row % "") * 2 + row % ', "ends_by": "stop", "id": "r9"', "utf-8")
    trace = read_trace(path)
    assert trace.ends_by is not None
    assert trace.ends_by.tolist() == [LENGTH, LENGTH, STOP]
    assert trace.ends_by.dtype == np.uint8
    assert trace.ids == ["r0000", "r0001", "r9"]


def test_a_predecessor_follows_its_row_through_sorting_and_skipping(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = ["30,1,1,2", "20,0,1,-1", "10,1,1,-1", "40,1,1,1", "50,1,1,0"]
    path.write_text("\n".join([f"{CSV},after_request", *rows]), "utf-8")
    trace = read_trace(path, sort=True, on_bad_row="skip")
    assert trace.arrival_ns.tolist() == [0, 20, 30, 40]
    assert trace.after_request is not None
    assert trace.after_request.tolist() == [-1, 0, -1, 1]
    assert "1 request follows a row that was left out" in receipt_text(trace)
