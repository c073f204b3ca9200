"""kvsim's own format: what is written is read again, column by column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import MorePredecessors, PrefixIds, Trace, TraceError, read_trace, write_trace

SUFFIXES = [
    f"{form}{pack}" for form in (".csv", ".jsonl", ".parquet") for pack in ("", ".gz", ".zst")
]
COLUMNS = [
    "arrival_ns", "prompt_tokens", "output_tokens", "max_tokens", "ends_by", "priority", "turn",
    "after_request", "delay_ns", "num_samples", "beam_width",
]  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(1, 2**31 - 1)
TIMES = st.integers(0, 2**63 - 1)


@st.composite
def prefixes(draw: st.DrawFn, covered: list[int], covers_output: bool) -> PrefixIds:
    block_size = draw(st.integers(1, 64))
    rows = [draw(st.lists(INT64, max_size=min(4, -(-tokens // block_size)))) for tokens in covered]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    ids = np.array([value for row in rows for value in row], dtype=np.int64)
    return PrefixIds(block_size, offsets, ids, covers_output)


@st.composite
def further_predecessors(draw: st.DrawFn, after: list[int]) -> MorePredecessors | None:
    """Earlier requests that are not the one followed already, in rows that follow one."""
    rows = [
        draw(st.lists(st.sampled_from(earlier), unique=True)) if parent >= 0 and earlier else []
        for parent, earlier in (
            (parent, [j for j in range(i) if j != parent]) for i, parent in enumerate(after)
        )
    ]
    flat = np.array([value for row in rows for value in row], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return MorePredecessors(offsets, flat) if len(flat) else None


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 6))

    def numbers(values: st.SearchStrategy[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=np.int64)

    trace = Trace(
        name=draw(TEXT),
        arrival_ns=np.sort(numbers(TIMES)),
        prompt_tokens=numbers(COUNTS),
        output_tokens=numbers(COUNTS),
    )
    for name, values in (
        ("priority", INT64), ("turn", TIMES), ("delay_ns", TIMES), ("num_samples", COUNTS),
        ("beam_width", COUNTS),
    ):  # fmt: skip
        if draw(st.booleans()):
            setattr(trace, name, numbers(values))
    if draw(st.booleans()):
        said = np.maximum(trace.output_tokens, numbers(COUNTS))
        trace.max_tokens = np.where(numbers(st.integers(0, 1)) == 1, said, -1)
    if draw(st.booleans()):
        trace.ends_by = numbers(st.integers(0, 1)).astype(np.uint8)
    if draw(st.booleans()):
        trace.after_request = np.array([draw(st.integers(-1, i - 1)) for i in range(n)])
        trace.also_after = draw(further_predecessors(trace.after_request.tolist()))
    if draw(st.booleans()):
        trace.ids = draw(st.lists(TEXT.filter(bool), min_size=n, max_size=n, unique=True))
    if draw(st.booleans()):
        trace.session = draw(st.lists(TEXT, min_size=n, max_size=n))
    if draw(st.booleans()):
        trace.user = draw(st.lists(TEXT, min_size=n, max_size=n))
    if draw(st.booleans()):
        covers_output = draw(st.booleans())
        covered = trace.prompt_tokens + (trace.output_tokens if covers_output else 0)
        trace.prefix = draw(prefixes(covered.tolist(), covers_output))
    return trace


def assert_equal(left: Trace, right: Trace) -> None:
    for name in COLUMNS:
        a, b = getattr(left, name), getattr(right, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            assert a.tolist() == b.tolist(), name
    assert (left.name, left.ids) == (right.name, right.ids)
    assert (left.user, left.session) == (right.user, right.session)
    assert (left.also_after is None) == (right.also_after is None)
    if left.also_after is not None and right.also_after is not None:
        assert left.also_after.offsets.tolist() == right.also_after.offsets.tolist()
        assert left.also_after.requests.tolist() == right.also_after.requests.tolist()
    assert (left.prefix is None) == (right.prefix is None)
    if left.prefix is not None and right.prefix is not None:
        assert left.prefix.block_size == right.prefix.block_size
        assert left.prefix.covers_output == right.prefix.covers_output
        assert left.prefix.scope == right.prefix.scope
        assert left.prefix.offsets.tolist() == right.prefix.offsets.tolist()
        assert left.prefix.ids.tolist() == right.prefix.ids.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@given(trace=traces())
def test_a_round_trip_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, trace: Trace
) -> None:
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    write_trace(trace, path)
    assert_equal(read_trace(path), trace)


@pytest.mark.parametrize(
    "file", ["azure.csv", "vidur.csv", "mooncake.jsonl", "golden.json", "own.csv"]
)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_converts_to_every_container(tmp_path: Path, file: str, suffix: str) -> None:
    trace = read_trace(Path(__file__).parents[1] / "data" / file)
    path = tmp_path / f"converted{suffix}"
    write_trace(trace, path)
    first = path.read_bytes()
    assert_equal(read_trace(path), trace)
    write_trace(trace, path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_scope_and_many_rows_survive(tmp_path: Path) -> None:
    n = 40_000  # more than one chunk of rows
    trace = Trace(
        name="long",
        arrival_ns=np.arange(n),
        prompt_tokens=np.full(n, 9),
        output_tokens=np.full(n, 2),
        user=[f"u{i % 7}" for i in range(n)],
        session=[f"s{i}" for i in range(n)],
        prefix=PrefixIds(4, np.arange(n + 1) * 2, np.arange(2 * n), scope="session"),
    )
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_trace(trace, tmp_path / f"long{suffix}")
        assert_equal(read_trace(tmp_path / f"long{suffix}"), trace)


def small(**columns: list[str]) -> Trace:
    one = np.ones(1, dtype=np.int64)
    trace = Trace("t", one - 1, one, one)
    for name, values in columns.items():
        setattr(trace, name, values)
    return trace


@pytest.mark.parametrize("name", ["x", "x.txt", "x.gz", "x.json", "x.parquet.bz2"])
def test_an_unknown_suffix_lists_the_choices(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=r"choices: \.csv, \.jsonl, \.parquet, with \.gz or \.zst"):
        write_trace(small(), tmp_path / name)


def test_failures_leave_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("before", "utf-8")
    nothing = np.zeros(0, dtype=np.int64)
    for trace, sentence in (
        (Trace("t", nothing, nothing, nothing), "holds no requests"),
        (small(ids=["\ud800"]), "not valid text"),
        (small(ids=["a\0"]), "NUL character"),
    ):
        with pytest.raises(TraceError, match=sentence):
            write_trace(trace, path)
        assert path.read_text("utf-8") == "before"
        assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TraceError, match="cannot be written: No such file"):
        write_trace(small(), tmp_path / "absent" / "x.csv")
