"""Reading as a user meets it: bad rows, order, limits, packing, encodings, damage."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from typing import Literal

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import Trace, TraceError, read_trace

DATA = Path(__file__).parents[1] / "data"
MINIATURES = [
    "azure.csv",
    "vidur.csv",
    "mooncake.jsonl",
    "golden.json",
    "own.csv",
    "own.jsonl",
    "own.parquet",
]
CSV = "arrival_ns,prompt_tokens,output_tokens\n"
JSONL = '{"arrival_ns": %d, "prompt_tokens": %s, "output_tokens": 1}\n'


def write(tmp_path: Path, content: str | bytes, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_bad_row_stops_with_place_value_bound_and_remedy() -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(DATA / "azure_bad_rows.csv")
    assert str(caught.value) == (
        f"{DATA / 'azure_bad_rows.csv'}: line 3: ContextTokens is '12.5'; allowed are whole "
        "numbers from 1 to 2147483647; correct the row, or skip such rows with --on-bad-row skip"
    )


def test_skipped_rows_are_counted_with_reason_and_first_line() -> None:
    trace = read_trace(DATA / "azure_bad_rows.csv", on_bad_row="skip")
    assert trace.prompt_tokens.tolist() == [374, 8]
    assert trace.receipt is not None
    assert trace.receipt.rows_read == 11
    assert trace.receipt.skipped == {
        "ContextTokens is not a whole number": (3, 3),
        "has another number of fields than the header": (1, 5),
        "ContextTokens is not in 1..2147483647": (2, 6),
        "ContextTokens is missing": (1, 8),
        "TIMESTAMP is not a timestamp": (2, 10),
    }


def test_ties_keep_file_order_and_sorting_is_stable(tmp_path: Path) -> None:
    path = write(tmp_path, CSV + "5,1,1\n5,2,1\n3,3,1\n5,4,1\n3,5,1\n")
    with pytest.raises(
        TraceError,
        match=r"line 4: arrival_ns is 2 ns earlier than in the row above.*with --sort",
    ):
        read_trace(path)
    trace = read_trace(path, sort=True)
    assert trace.prompt_tokens.tolist() == [3, 5, 1, 2, 4]
    assert trace.arrival_ns.tolist() == [0, 0, 2, 2, 2]
    assert trace.receipt is not None
    assert "sorted by time: 2 rows were earlier than the row above" in trace.receipt.notes


@pytest.mark.parametrize("file", MINIATURES)
def test_limit_takes_the_first_and_hashes_all(file: str) -> None:
    whole, part = read_trace(DATA / file), read_trace(DATA / file, limit=2)
    assert part.prompt_tokens.tolist() == whole.prompt_tokens.tolist()[:2]
    assert part.sha256 == whole.sha256
    assert part.receipt is not None
    assert "stopped after 2 requests (--limit)" in part.receipt.notes


def test_rows_past_the_limit_are_not_judged(tmp_path: Path) -> None:
    path = write(tmp_path, CSV + "0,1,1\n1,0,1\n2,3,1\n3,4,1\nnonsense\n")
    assert read_trace(path, limit=2, on_bad_row="skip").prompt_tokens.tolist() == [1, 3]
    assert read_trace(path, limit=1).prompt_tokens.tolist() == [1]
    with pytest.raises(TraceError, match="line 3: prompt_tokens is '0'"):
        read_trace(path, limit=2)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(TraceError, match=f"--limit is {limit}; allowed are whole numbers from 1"):
        read_trace(DATA / "azure.csv", limit=limit)


def test_an_unknown_way_with_bad_rows_is_refused() -> None:
    wrong: Literal["stop"] = "ignore"  # type: ignore[assignment]
    with pytest.raises(TraceError, match="'ignore'; choices: stop, skip"):
        read_trace(DATA / "azure.csv", on_bad_row=wrong)


@pytest.mark.parametrize("file", MINIATURES)
@pytest.mark.parametrize("packing", ["gzip", "zstd", "two gzip members", "two zstd frames"])
def test_packing_is_seen_whatever_the_name_says(tmp_path: Path, file: str, packing: str) -> None:
    content = (DATA / file).read_bytes()
    half = len(content) // 2
    parts = [content[:half], content[half:]] if packing.startswith("two") else [content]
    pack = gzip.compress if "gzip" in packing else zstandard.ZstdCompressor().compress
    trace = read_trace(write(tmp_path, b"".join(map(pack, parts)), "trace.txt"))
    assert trace.arrival_ns.tolist() == read_trace(DATA / file).arrival_ns.tolist()
    assert trace.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("file", [name for name in MINIATURES if name != "own.parquet"])
def test_text_may_have_a_mark_crlf_blank_lines_and_no_end(tmp_path: Path, file: str) -> None:
    text = (DATA / file).read_text("utf-8").replace("\r\n", "\n").rstrip("\n")
    same = [text, text + "\n", text + "\n\n \n".replace(" ", ""), "\ufeff" + text]
    expected = read_trace(DATA / file)
    for variant in [*same, *(text.replace("\n", "\r\n") for text in same)]:
        trace = read_trace(write(tmp_path, variant))
        assert trace.arrival_ns.tolist() == expected.arrival_ns.tolist()
        assert trace.ids == expected.ids


def test_line_numbers_count_blank_lines_and_quoted_breaks(tmp_path: Path) -> None:
    header = "id," + CSV
    path = write(tmp_path, header + '"a\nb",0,1,1\n\n"c",1,0,1\n')
    with pytest.raises(TraceError, match="line 5: prompt_tokens is '0'"):
        read_trace(path)
    path = write(tmp_path, JSONL % (0, 1) + "\n" + JSONL % (1, "0"))
    with pytest.raises(TraceError, match="line 3: prompt_tokens is 0"):
        read_trace(path)


def test_a_cell_may_be_longer_than_the_csv_module_likes(tmp_path: Path) -> None:
    ids = " ".join(["1234567"] * 30_000)
    text = f'# kvsim-trace {{"id_block_tokens": 1}}\nprefix_ids,{CSV}{ids},0,30000,1\n'
    trace = read_trace(write(tmp_path, text))
    assert trace.prefix is not None
    assert len(trace.prefix.ids) == 30_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"\n\n  \n", "no known format fits"),
        (CSV.encode(), "the file has no requests: it has no data rows"),
        (CSV.encode() + b"0,0,1\n", "prompt_tokens is '0'"),
        (CSV.encode() + b'0,1,"1', "this is not CSV: unexpected end of data"),
        (CSV.encode() + b"0,1,1\xff\n", "the text is not UTF-8 .byte 0xff"),
        (CSV.encode("utf-16"), "UTF-16 text, which must be converted to UTF-8"),
        (CSV.replace(",", ";").encode() + b"0;1;1\n", "no known format fits"),
        (bytes(range(256)) * 4, "this is no text"),
        (b"\x1f\x8b" + b"garbage", "the gzip data is damaged"),
        (b"\x28\xb5\x2f\xfd" + b"garbage" * 9, "the zstd data is damaged"),
        (gzip.compress(CSV.encode() * 99, mtime=0)[:-9], "the gzip data is cut off before its end"),
        (gzip.compress(CSV.encode() + b"0,1,1\n", mtime=0) + b"tail", "the gzip data is damaged"),
        (zstandard.compress(CSV.encode() * 99)[:-5], "the zstd data is cut off before its end"),
        (b"PAR1 and then nothing of the kind", "the parquet data is damaged"),
        ((JSONL % (0, "1")).encode() + b'{"arrival_ns": 1, "pro', "line 2: the line is not JSON"),
        ((JSONL % (0, "1")).encode() + b"[1]\n", r"line 2: the line is \[1\], not a JSON object"),
        ((JSONL % (0, "1")).encode() + b"[" * 99_999, "line 2: the line is not JSON"),
        ((JSONL % (0, "NaN")).encode(), "prompt_tokens is 'NaN'"),
        ((JSONL % (0, "1.5")).encode(), "prompt_tokens is 1.5"),
        ((JSONL % (0, '"1,024"')).encode(), "prompt_tokens is '1,024'"),
        ((JSONL % (0, "null")).encode(), "prompt_tokens is missing"),
        ((JSONL % (0, "true")).encode(), "prompt_tokens is True"),
        ((JSONL % (0, "9" * 5000)).encode(), "line 1: the line is not JSON"),
        ((JSONL % (0, "1e" + "9" * 25)).encode(), "line 1: .* exponent beyond all bounds"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence) as caught:
        read_trace(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("file", ["azure_cut_off.csv.gz", "azure_utf16.csv"])
def test_broken_miniatures(file: str) -> None:
    with pytest.raises(TraceError):
        read_trace(DATA / file)


def test_all_rows_skipped_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no requests: all 2 rows were skipped"):
        read_trace(write(tmp_path, CSV + "0,0,1\n0,1,0\n"), on_bad_row="skip")


def test_two_values_under_one_key_are_refused(tmp_path: Path) -> None:
    row = '{"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1, "prompt_tokens": 9}\n'
    with pytest.raises(TraceError, match=r"line 1: .* key 'prompt_tokens' occurs twice in one obj"):
        read_trace(write(tmp_path, row))


def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "absent.csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match=r"this is a pipe or a device, .* write it to a file"):
        read_trace(tmp_path / "pipe")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)


@pytest.mark.parametrize("file", MINIATURES)
@given(data=st.data())
def test_damage_gives_a_trace_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    content = bytearray((DATA / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 9))
        content[at : at + cut] = data.draw(
            st.binary(max_size=3)
            | st.sampled_from([b"-", b"0", b"9" * 25, b",", b'"', b"\n", b"null"])
        )
    path = tmp_path_factory.getbasetemp() / f"damaged-{file}"
    path.write_bytes(content)
    for on_bad_row in ("stop", "skip"):
        try:
            trace = read_trace(path, on_bad_row=on_bad_row)
        except TraceError as error:
            sentence = str(error)
        else:
            sentence = ""
            assert_sane(trace)
        assert "\n" not in sentence


def assert_sane(trace: Trace) -> None:
    assert (trace.arrival_ns[1:] >= trace.arrival_ns[:-1]).all()
    assert (trace.prompt_tokens >= 1).all()
    assert (trace.output_tokens >= 1).all()
    assert trace.receipt is not None
    assert trace.receipt.num_requests == len(trace)
    if trace.prefix is not None:
        assert trace.prefix.offsets[-1] == len(trace.prefix.ids)
