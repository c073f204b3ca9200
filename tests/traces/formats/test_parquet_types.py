"""Parquet of other tools: whatever type a column has, its numbers or one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvsim.traces import TraceError, read_trace

if TYPE_CHECKING:
    from pathlib import Path

PROMPTS = [1, 2, 2]
SAME = {
    "int64": pa.array(PROMPTS),
    "int32": pa.array(PROMPTS, pa.int32()),
    "uint8": pa.array(PROMPTS, pa.uint8()),
    "float": pa.array([1.0, 2.0, 2.0]),
    "decimal": pa.array(PROMPTS).cast(pa.decimal128(25, 2)),
    "text": pa.array(["1", "2", "2"]),
    "large text": pa.array(["1", "2", "2"], pa.large_string()),
    "dictionary": pa.array(["1", "2", "2"]).dictionary_encode(),
}
OTHERS = {
    r"row 1: prompt_tokens is 1\.5": pa.array([1.5, 2.0, 3.0]),
    "row 1: prompt_tokens is nan": pa.array([float("nan"), 2.0, 3.0]),
    "row 2: prompt_tokens is missing": pa.array([1, None, 3]),
    "row 1: prompt_tokens is missing": pa.nulls(3),
    "row 3: prompt_tokens is 18446744073709551615": pa.array([1, 2, 2**64 - 1], pa.uint64()),
    "row 1: prompt_tokens is True": pa.array([True, False, True]),
    r"row 1: prompt_tokens is \[1\]": pa.array([[1], [2], [3]]),
    r"'prompt_tokens' is of type timestamp\[us\]; allowed are": pa.array(
        [2**62] * 3, pa.timestamp("us")
    ),
    r"is of type duration\[ns\]": pa.array(PROMPTS, pa.duration("ns")),
    "is of type struct<a: int64>": pa.array([{"a": 1}] * 3),
    "is of type binary": pa.array([b"1", b"2", b"\xff"]),
}


def written(path: Path, prompts: Any) -> Path:
    names = ["arrival_ns", "prompt_tokens", "output_tokens"]
    pq.write_table(
        pa.Table.from_arrays([pa.array([0, 5, 9]), prompts, pa.array([4, 5, 6])], names), path
    )
    return path


@pytest.mark.parametrize("kind", SAME)
def test_types_that_say_the_same_numbers(tmp_path: Path, kind: str) -> None:
    trace = read_trace(written(tmp_path / "x.parquet", SAME[kind]))
    assert trace.prompt_tokens.tolist() == PROMPTS


@pytest.mark.parametrize("sentence", OTHERS)
def test_what_is_no_column_of_numbers(tmp_path: Path, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_trace(written(tmp_path / "x.parquet", OTHERS[sentence]))


def test_a_column_that_occurs_twice(tmp_path: Path) -> None:
    names = ["arrival_ns", "prompt_tokens", "output_tokens", "prompt_tokens"]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 4, names), path)
    with pytest.raises(TraceError, match="column 'prompt_tokens' occurs twice in the schema"):
        read_trace(path)
