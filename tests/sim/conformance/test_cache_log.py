"""Cache logs: broken files, options, each compared field, and what the command prints."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.cli.main import main
from kvsim.sim.conformance.cache_log import CacheLog, cache_config, cache_log, is_cache_log
from kvsim.sim.conformance.cache_replay import replay_cache, short
from kvsim.sim.conformance.recordings import is_trace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.difference import Difference
    from kvsim.traces import Trace

    RecordedCache = Callable[[str], tuple[CacheLog, Trace]]

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
HEADER = {"type": "header", "sglang": "0", "page_size": 1, "pool_tokens": 9, "policy": "lru"}
SUMMARY = {
    "type": "summary",
    **dict.fromkeys(("ops", "hit_tokens", "prompt_tokens", "evicted_tokens", "failed"), 0),
}
SIZES = {"free": 0, "evictable": 0, "protected": 0}
START: dict[str, Any] = {"op": "start", "id": "a", "hit": 0, "need": 2, "evicted": [], **SIZES}
FINISH = {"op": "finish", "id": "a", "duplicate": 0, **SIZES}
PREFILLED = {**FINISH, "op": "prefilled"}


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def test_a_cache_log_is_told_by_its_header() -> None:
    assert is_cache_log([HEADER])
    assert not is_cache_log([{"type": "header", "log_format": 1}])
    assert not is_cache_log([])
    log = cache_log(Path("x"), [HEADER, START, PREFILLED, FINISH, SUMMARY])
    assert log.options == {"page_size": 1, "pool_tokens": 9, "policy": "lru"}
    assert len(log.operations) == 3


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([HEADER], "x: a recorded cache log starts with a header and ends with a summary"),
        ([without(HEADER, "type"), SUMMARY], "starts with a header"),
        (
            [without(HEADER, "policy"), without(SUMMARY, "ops")],
            "policy, ops missing in header or summary",
        ),
        ([HEADER, {"op": "stop", "id": "a"}, SUMMARY], "line 2: op is 'stop' of id 'a'; allowed"),
        ([HEADER, {"op": "start"}, SUMMARY], "op is 'start' of id None"),
        ([HEADER, without(START, "hit", "free"), SUMMARY], r"line 2 \(start\): hit, free missing"),
        ([HEADER, FINISH, SUMMARY], "line 2: finish of a comes after nothing"),
        ([HEADER, START, FINISH, SUMMARY], "line 3: finish of a comes after start"),
        ([HEADER, START, START, SUMMARY], "line 3: start of a comes after start"),
        (
            [HEADER, {**START, "failed": True}, PREFILLED, SUMMARY],
            "prefilled of a comes after no room",
        ),
    ],
)
def test_bad_logs(records: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cache_log(Path("x"), records)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("page_sise", 1, "option 'page_sise' is unknown .did you mean 'page_size'"),
        ("x", 1, "option 'x' is unknown; choices: page_size, pool_tokens, policy"),
        ("page_size", 0, "option page_size is 0; allowed: a whole number from 1"),
        ("pool_tokens", 1.5, "option pool_tokens is 1.5; allowed: a whole number"),
        ("pool_tokens", True, "option pool_tokens is True"),
        ("page_size", 4, "pool_tokens is 9; allowed are multiples of page_size 4"),
        ("policy", "lur", "'lur' is unknown .*; choices: lru, fifo, lfu, "),
    ],
)
def test_bad_options(option: str, value: object, message: str) -> None:
    given = {"page_size": 1, "pool_tokens": 9, "policy": "lru", option: value}
    with pytest.raises(ValueError, match=message):
        cache_config(given)


# ---- what is compared ------------------------------------------------------------------------


def compare(log: CacheLog, trace: Trace) -> Difference:
    difference = replay_cache(log, trace).difference
    assert difference is not None
    return difference


def changed(log: CacheLog, position: int, field: str) -> CacheLog:
    """A copy of a log in which one field of an operation is another."""
    operations = copy.deepcopy(log.operations)
    old = operations[position].get(field, False)
    operations[position][field] = [*old, 1] if isinstance(old, list) else int(old) + 1
    return CacheLog(log.path, log.header, operations, log.summary)


@pytest.mark.parametrize(
    ("position", "field"),
    [
        *((99, field) for field in ("hit", "need", "evicted", "failed")),
        *((100, field) for field in ("duplicate", "free", "evictable", "protected")),
        *((101, field) for field in ("duplicate", "free", "evictable", "protected")),
    ],
)
def test_each_field_of_an_operation(
    position: int, field: str, recorded_cache: RecordedCache
) -> None:
    log, trace = recorded_cache("lru_p16_lfu")
    difference = compare(changed(log, position, field), trace)
    assert difference.place.startswith(
        f"operation {position + 1} ({log.operations[position]['op']}"
    )
    assert [row[0] for row in difference.fields] == [field]
    assert len(difference.before) == 3


@pytest.mark.parametrize("field", without(SUMMARY, "type"))
def test_each_field_of_the_summary(field: str, recorded_cache: RecordedCache) -> None:
    log, trace = recorded_cache("lru_p1")
    summary = {**log.summary, field: log.summary[field] + 1}
    difference = compare(CacheLog(log.path, log.header, log.operations, summary), trace)
    assert (difference.place, difference.field) == ("the summary", field)


def test_traces_that_do_not_fit(recorded_cache: RecordedCache) -> None:
    log, trace = recorded_cache("tree_p1")
    with pytest.raises(ValueError, match=r"request r\d+ is not in trace lru"):
        replay_cache(
            CacheLog(log.path, log.header, log.operations[-3:], log.summary),
            recorded_cache("lru_p1")[1],
        )
    plain = copy.copy(trace)
    plain.prefix = None
    with pytest.raises(ValueError, match="trace tree has no block ids for prompts and outputs"):
        replay_cache(log, plain)


def test_the_trace_is_told_by_its_name(recorded_cache: RecordedCache) -> None:
    log, _ = recorded_cache("tree_p1")
    assert is_trace_of(log, GOLDEN / "vllm" / "traces" / "tree.json.gz")
    assert not is_trace_of(log, GOLDEN / "vllm" / "traces" / "lru.json.gz")


def test_an_operation_in_one_line() -> None:
    assert short(7, {**START, "evicted": [16, 32], "failed": True}) == (
        "7 start a: hit 0 need 2 evicted 16+32 failed free 0 evictable 0 protected 0"
    )
    assert short(8, START) == "8 start a: hit 0 need 2 evicted - free 0 evictable 0 protected 0"
    assert short(9, FINISH) == "9 finish a: duplicate 0 free 0 evictable 0 protected 0"


# ---- the command -----------------------------------------------------------------------------


def validate(*arguments: object) -> int:
    return main(["validate", "schedule", *map(str, arguments)])


def test_identical(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(GOLDEN / "sglang" / "mixed_p1.jsonl.gz") == 0
    assert capsys.readouterr() == (
        "identical: 900 operations (cache verified, scheduler not)\n",
        "",
    )


def test_step_means_nothing_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(GOLDEN / "sglang" / "lru_p1.jsonl.gz", "--step") == 0
    assert capsys.readouterr().err == "note: --step changes nothing: only the cache is replayed\n"


def test_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = tmp_path / "o.json"
    options.write_text(json.dumps({"policy": "slru"}))
    assert validate(GOLDEN / "sglang" / "lru_p16_lfu.jsonl.gz", "--options", options) == 1
    assert capsys.readouterr() == (EXPECTED, "")


EXPECTED = """\
different at operation 100 (start r0033): evicted

before:
  97 start r0032: hit 0 need 128 evicted 96 free 64 evictable 832 protected 0
  98 prefilled r0032: duplicate 0 free 64 evictable 832 protected 112
  99 finish r0032: duplicate 0 free 80 evictable 944 protected 0

                    theirs                        ours
evicted[1]          128                           16
free                112                           0
evictable           800                           912
"""


def test_another_trace_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    trace = GOLDEN / "vllm" / "traces" / "tree.json.gz"
    assert validate(GOLDEN / "sglang" / "lru_p1.jsonl.gz", "--trace", trace) == 1
    assert capsys.readouterr().err == f"note: {trace} is not the trace that was recorded\n"


def test_a_broken_log_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(HEADER) + "\n")
    assert validate(log) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err == f"kvsim: {log}: a recorded cache log starts with a header and ends with a summary\n"
    )
