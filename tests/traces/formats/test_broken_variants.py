"""Broken variants of every format: a trace with a true receipt, or one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.traces import Trace, TraceError, read_trace

DATA = Path(__file__).parents[2] / "data"
NO_TIMES = {"vidur_lengths.csv", "llmperf.json", "vllm_bench_no_times.json"}
NO_STARTS = {"kv_cache_tester.jsonl", "kv_cache_tester_one.json", "tracelab_no_times.csv"}
NO_OUTPUTS = {"vidur_prompts.csv", "tair_tokens.jsonl"}
FILES = sorted(
    path.name
    for path in DATA.iterdir()
    if path.suffix in {".csv", ".json", ".jsonl"} and not path.name.startswith("own")
)
PIECES = [
    b"-", b"0", b"9" * 25, b",", b'"', b"\n", b"null", b"[]", b"{}", b"{", b"]", b"1e9", b"NaN",
    b"true", b"-1", b"1.5", b'"a"', b"\xff",
]  # fmt: skip


def damaged(content: bytes, data: st.DataObject) -> bytes:
    """Cut, insert and replace bytes, swap lines, or put odd values where numbers stand."""
    broken = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["bytes", "number", "lines"]))
        if kind == "bytes":
            at = data.draw(st.integers(0, len(broken)))
            cut = data.draw(st.integers(0, 9))
            broken[at : at + cut] = data.draw(st.binary(max_size=3) | st.sampled_from(PIECES))
        elif kind == "number":
            digits = [at for at, byte in enumerate(broken) if 48 <= byte <= 57]
            if digits:
                at = data.draw(st.sampled_from(digits))
                broken[at : at + 1] = data.draw(st.sampled_from(PIECES))
        else:
            lines = bytes(broken).split(b"\n")
            order = data.draw(st.permutations(range(min(len(lines), 6))))
            broken = bytearray(b"\n".join([lines[i] for i in order] + lines[len(order) :]))
    return bytes(broken)


def check(path: Path, **options: Any) -> None:
    sentence = ""
    try:
        trace = read_trace(path, **options)
    except TraceError as error:
        sentence = str(error)
    else:
        assert_true_receipt(trace, keep_unusable=options["keep_unusable"])
    assert "\n" not in sentence
    assert not sentence or str(path) in sentence or "--" in sentence


def assert_true_receipt(trace: Trace, *, keep_unusable: bool) -> None:
    assert (trace.arrival_ns[1:] >= trace.arrival_ns[:-1]).all()
    assert (trace.prompt_tokens >= 1).all()
    assert (trace.output_tokens >= (0 if keep_unusable else 1)).all()
    receipt = trace.receipt
    assert receipt is not None
    assert receipt.num_requests == len(trace)
    zeros = int((trace.output_tokens == 0).sum()) if receipt.has_outputs else 0
    assert sum(count for count, _ in receipt.unusable.values()) == zeros
    for line in receipt.lines():
        assert "\n" not in line
    if trace.prefix is not None:
        covered = trace.prompt_tokens + trace.prefix.covers_output * trace.output_tokens
        lengths = trace.prefix.offsets[1:] - trace.prefix.offsets[:-1]
        assert trace.prefix.offsets[-1] == len(trace.prefix.ids)
        assert ((lengths - 1) * trace.prefix.block_size < covered).all()
    if trace.after_request is not None:
        followers = [(i, j) for i, j in enumerate(trace.after_request.tolist()) if j >= 0]
        assert all(j < i for i, j in followers)
        assert trace.delay_ns is None or (trace.delay_ns >= -1).all()


@pytest.mark.parametrize("file", FILES)
@settings(max_examples=max(15, settings().max_examples // 6))
@given(data=st.data())
def test_damage_gives_a_trace_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"broken-{file}"
    path.write_bytes(damaged((DATA / file).read_bytes(), data))
    options: dict[str, Any] = {
        "arrivals": "poisson(rate=2)" if file in NO_TIMES else None,
        "session_starts": "rate=1" if file in NO_STARTS else None,
        "output_tokens": "uniform(1,9)" if file in NO_OUTPUTS else None,
        "sort": data.draw(st.booleans()),
        "limit": data.draw(st.none() | st.integers(1, 3)),
    }
    for on_bad_row in ("stop", "skip"):
        for keep_unusable in (False, True):
            check(path, **options, on_bad_row=on_bad_row, keep_unusable=keep_unusable)


@settings(max_examples=max(15, settings().max_examples // 6))
@given(data=st.data(), which=st.sampled_from(["trace.csv", "dataset.json"]))
def test_damaged_clients(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, which: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "clients"
    shutil.copytree(DATA / "servegen", folder, dirs_exist_ok=True)
    name = f"chunk-0-{which}"
    (folder / name).write_bytes(damaged((DATA / "servegen" / name).read_bytes(), data))
    check(folder, limit=50, keep_unusable=False)
