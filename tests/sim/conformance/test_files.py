"""Files of a comparison and the command: options, broken logs, traces, what is printed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvsim.cli.main import main
from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.conformance.recordings import find_trace, is_trace_of
from kvsim.sim.conformance.vllm_log import DEFAULTS, GoldenLog, engine_options, read_log

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "vllm"


def test_options_have_the_defaults_of_the_format() -> None:
    config, cost = engine_options({})
    assert (config.block_size, config.max_num_seqs, config.async_scheduling) == (16, 64, False)
    assert cost.base_ps == 4_000_000_000
    assert engine_options(DEFAULTS) == (config, cost)
    hybrid, _ = engine_options({"layout": "hybrid", "sliding_window": 64})
    assert hybrid.kv_groups == (KVGroup(), KVGroup(64))
    listed, _ = engine_options({"layout": "hybrid", "groups": [7, None]})
    assert listed.kv_groups == (KVGroup(7), KVGroup())
    _, free = engine_options({"cost": {"base": 0}})
    assert (free.base_ps, free.per_prefill_token_ps) == (0, 30_000_000)


BAD_OPTIONS = [
    ({"block_sizes": 16}, "option 'block_sizes' is unknown (did you mean 'block_size'?)"),
    ({"x": 16}, "option 'x' is unknown; choices: block_size, "),
    ({"block_size": 0}, "option block_size is 0; allowed: a whole number from 1"),
    ({"block_size": True}, "option block_size is True; allowed: a whole number from 1"),
    ({"block_size": "16"}, "option block_size is '16'; allowed: a whole number from 1"),
    ({"watermark": 1.5}, "option watermark is 1.5; allowed: a number from 0 up to, but not, 1"),
    ({"watermark": 1.0}, "option watermark is 1.0; allowed: a number from 0 up to, but not, 1"),
    ({"watermark": 1}, "option watermark is 1; allowed: a number from 0 up to, but not, 1"),
    ({"policy": "lifo"}, "option policy is 'lifo'; allowed: fcfs or priority"),
    ({"layout": "mla"}, "option layout is 'mla'; allowed: full or swa or hybrid"),
    ({"layout": "swa"}, "layout 'swa' needs sliding_window"),
    ({"groups": []}, "option groups is []; allowed: null, or a list of windows in tokens"),
    ({"groups": [None, 0]}, "option groups is [None, 0]; allowed: null, or a list of windows"),
    ({"groups": 5}, "option groups is 5; allowed: null, or a list of windows in tokens"),
    ({"sliding_window": 0}, "option sliding_window is 0; allowed: a whole number from 1 or null"),
    ({"cost": 5}, "option cost is 5; allowed: an object of integer ns"),
    ({"cost": {"base": -1}}, "option base is -1; allowed: a whole number from 0"),
    ({"cost": {"bases": 1}}, "option 'bases' is unknown (did you mean 'base'?)"),
    ({"enable_chunked_prefill": 0}, "option enable_chunked_prefill is 0; allowed: true or false"),
    ({"enable_chunked_prefill": False}, "without chunked prefill max_num_batched_tokens must be"),
    (
        {"max_num_batched_tokens": 8, "max_num_seqs": 9},
        "max_num_batched_tokens (=8) must be at least max_num_seqs (=9)",
    ),
    (
        {"long_prefill_token_threshold": 4097},
        "long_prefill_token_threshold (=4097) is above max_model_len (=4096)",
    ),
    (
        {"prefix_cache_retention_interval": 16},
        "prefix_cache_retention_interval (=16) needs a group with a window",
    ),
    (
        {"prefix_cache_retention_interval": 24, "groups": [None, 40]},
        "prefix_cache_retention_interval (=24) must be a multiple of block_size (=16)",
    ),
]


def test_the_engine_starts_at_the_limits() -> None:
    engine_options({"max_num_batched_tokens": 9, "max_num_seqs": 9})
    engine_options({"long_prefill_token_threshold": 4096})
    engine_options({"prefix_cache_retention_interval": 0})
    engine_options({"prefix_cache_retention_interval": 48, "groups": [None, 40]})


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        engine_options(options)


HEADER = '{"type":"header","log_format":1,"options":{}}\n'
SUMMARY = '{"type":"summary"}\n'
BAD_LOGS = [
    ("", "a recorded schedule starts with a header and ends with a summary"),
    (SUMMARY + HEADER, "a recorded schedule starts with a header"),
    (HEADER + HEADER + SUMMARY, "a recorded schedule starts with a header"),
    ("hello\n", "not a recorded schedule: line 1 is not JSON: "),
    (HEADER + "[1]\n" + SUMMARY, "not a recorded schedule: line 2 is not a JSON object"),
    (HEADER + '{"type":"token"}\n' + SUMMARY, r"line types \['token'\] are unexpected"),
    (HEADER + '{"type":[]}\n' + SUMMARY, r"line types \['\[\]'\] are unexpected"),
    (HEADER + SUMMARY + SUMMARY, "line types summary, twice are unexpected"),
    ('{"type":"header","log_format":2,"options":{}}\n' + SUMMARY, "must have log_format 1"),
    ('{"type":"header","log_format":1}\n' + SUMMARY, "must have log_format 1 and options"),
    (HEADER + '{"type":"step","i":0,"t0":0}\n' + SUMMARY, r"line 2 \(step\): t1, sched"),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("text", "message"), BAD_LOGS)
def test_bad_logs(text: str, message: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(ValueError, match=message):
        read_log(path)


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe\x00", gzip.compress(b"{}", mtime=0)[:-9], b"\x1f\x8bxx"]
)
def test_damaged_logs(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"log\.jsonl\.gz: not a recorded schedule"):
        read_log(path)


@pytest.mark.parametrize("place", ["here", "here/traces", "vllm/traces"])
def test_the_trace_is_found(place: str, tmp_path: Path) -> None:
    log = GoldenLog(tmp_path / "here" / "a.jsonl.gz", {"trace_name": "t"}, [], [], {})
    log.path.parent.mkdir()
    with pytest.raises(ValueError, match=r"its trace t.json.gz is in none of .*; name it with --"):
        find_trace(log)
    trace = tmp_path / place / "t.json.gz"
    trace.parent.mkdir(parents=True, exist_ok=True)
    trace.touch()
    assert find_trace(log).samefile(trace)


def test_the_header_knows_its_trace() -> None:
    log = read_log(GOLDEN / "micro.jsonl.gz")
    assert is_trace_of(log, GOLDEN / "traces" / "micro.json.gz")
    assert not is_trace_of(log, GOLDEN / "traces" / "lru.json.gz")


# ---- the command -----------------------------------------------------------------------------


def validate(*arguments: object) -> int:
    return main(["validate", "schedule", *map(str, arguments)])


def test_identical(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(GOLDEN / "micro.jsonl.gz", "--step") == 0
    assert capsys.readouterr() == ("identical: 59 steps\n", "")


def test_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = tmp_path / "o.json"
    options.write_text(json.dumps({"scheduler_reserve_full_isl": False}))
    assert validate(GOLDEN / "micro_nocache.jsonl.gz", "--step", "--options", options) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert out == EXPECTED


EXPECTED = """\
different at step 40: admitted

before:
  step 37 t0=155592880 t1=159695800: 2 sequences, 2 tokens
  step 38 t0=159695800 t1=163798760: 2 sequences, 2 tokens
  step 39 t0=163798760 t1=167901760: 2 sequences, 2 tokens finished r0000 finished r0001

                    theirs                        ours
admitted[2]         -                             r0004 0 new
sched[2]            -                             r0004 31 0 P
t1                  174813700                     175744320
free_after_schedule 3                             1
alloc[r0004]        -                             9 2
"""


def test_another_trace_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    trace = GOLDEN / "traces" / "lru.json.gz"
    assert validate(GOLDEN / "micro.jsonl.gz", "--trace", trace) == 1
    assert capsys.readouterr().err == f"note: {trace} is not the trace that was recorded\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON object of options: "),
        ("[]", "options are a JSON object, not list"),
        ('{"block_sise": 1}', "option 'block_sise' is unknown (did you mean 'block_size'?)"),
    ],
)
def test_bad_option_files(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = tmp_path / "o.json"
    options.write_text(text)
    assert validate(GOLDEN / "micro.jsonl.gz", "--options", options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_absent_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(tmp_path / "none.gz") == 2
    assert validate(GOLDEN / "micro.jsonl.gz", "--trace", tmp_path / "none.gz") == 2
    assert validate(GOLDEN / "micro.jsonl.gz", "--options", tmp_path / "none.json") == 2
    assert capsys.readouterr().err.count("\n") == 3
