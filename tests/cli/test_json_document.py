"""docs/json.md lists every key that a summary or comparison holds, and no other."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvsim.sim.comparison import compare
from kvsim.sim.run import simulate
from kvsim.sim.run_folder import to_json
from kvsim.sim.scenario import Scenario
from kvsim.traces.trace import Trace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"
UNITS = {"s", "B", "%", "/s", "1", "", "text", "bool", "list of text", "list of 1", "as above"}
WHOLE = {"rows[].scenario", "published"}
"""Documented as a whole."""
NAMED_BY_THE_RUN = {"requests.refused_reasons"}
TRACE = Trace(
    name="t",
    arrival_ns=np.arange(40, dtype=np.int64) * 5_000_000,
    prompt_tokens=np.tile(np.array([300, 900, 60, 4000], dtype=np.int64), 10),
    output_tokens=np.tile(np.array([200, 1, 300, 40], dtype=np.int64), 10),
    sha256="0" * 64,
)
SCORES = "layer,position,score\n" + "".join(f"0,{place},{place % 7 + 1}\n" for place in range(6000))


def expanded(pattern: str) -> list[str]:
    """Keys of ``a.{b, c}.d``: each of them."""
    parts = re.split(r"\{(.*?)\}", pattern)
    choices = [part.split(", ") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def documented(schema: str) -> dict[str, str]:
    """Units by key, from the table under a heading with ``schema``."""
    text = PAGE.read_text("utf-8")
    section = text[text.index(f"(`{schema}`)") :].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.*?) ?\| ", section, re.MULTILINE)
    return {key: unit.strip() for pattern, unit in rows for key in expanded(pattern)}


def held(value: Any, path: str = "") -> set[str]:
    """Paths of all leaves of a document."""
    if path in WHOLE:
        return {path}
    if path in NAMED_BY_THE_RUN:
        return {f"{path}.*"} if value else set()
    if isinstance(value, dict) and value:
        return set().union(*(held(one, f"{path}.{key}".lstrip(".")) for key, one in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return set().union(*(held(one, f"{path}[]") for one in value))
    return {path}


def scenario(preset: str, **values: Any) -> Scenario:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return Scenario.load(preset).with_values({"engine.max_model_len": 6000, **named})


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Summaries of runs that differ in all that a summary may tell."""
    scores = tmp_path_factory.mktemp("scores") / "scores.csv"
    scores.write_text(SCORES)
    few, budget = {"engine__num_gpu_blocks_override": 300}, {"engine__max_num_batched_tokens": 1024}
    slo = {"slo__ttft": "2s", "slo__tpot": "50ms", "slo__e2e": "9s"}
    kept = {
        "retention__kind": "heavy-hitters",
        "retention__budget": 256,
        "engine__enable_prefix_caching": False,
    }
    users = replace(TRACE, user=["heavy", "light", "light", "other"] * 10)
    named = simulate(users, scenario("vllm-0.32", queue__policy="fair")).summary
    return [json.loads(to_json(named))] + [
        json.loads(to_json(simulate(TRACE, one).summary))
        for one in (
            scenario("vllm-0.32", **few, **budget, **slo, engine__max_model_len=3000),
            scenario("vllm-v0", **few, preemption__mode="auto"),
            scenario(
                "orca-max",
                engine__kv_memory="1GiB",
                allocator__reservation="predicted",
                predictor__kind="oracle",
            ),
            scenario("vllm-0.32", **kept, **budget, retention__compaction="eager"),
            scenario("vllm-0.32", **kept, **budget, retention__scores=str(scores)),
            scenario("vllm-0.32", **{**kept, "retention__kind": "sinks-recent"}, **budget),
        )
    ]


def assert_documented(documents: list[Any], schema: str) -> None:
    assert {document["schema"] for document in documents} == {schema}
    keys, units = set().union(*(held(document) for document in documents)), documented(schema)
    assert keys - units.keys() == set(), "not in docs/json.md"
    assert units.keys() - keys - WHOLE == set(), "in docs/json.md, but in no document"
    assert set(units.values()) <= UNITS


def test_all_keys_of_summaries(summaries: list[Any]) -> None:
    assert_documented(summaries, "kvsim.summary/1")


def test_all_keys_of_comparisons() -> None:
    rows = {
        "tight": scenario("vllm-0.32", engine__num_gpu_blocks_override=400),
        "future": scenario("vllm-0.32", eviction__policy="furthest-next-use"),
        "lru": scenario("vllm-0.32"),
    }
    too_long = TRACE.prompt_tokens + 9000  # all are refused, and no time passes
    refused = replace(TRACE, arrival_ns=TRACE.arrival_ns * 0, prompt_tokens=too_long)
    found = [compare(trace, rows, jobs=1).to_json() for trace in (TRACE, refused)]
    assert_documented([json.loads(to_json(one)) for one in found], "kvsim.comparison/1")


def test_units_in_names_are_the_units_documented(summaries: list[Any]) -> None:
    del summaries
    for key, unit in (documented("kvsim.summary/1") | documented("kvsim.comparison/1")).items():
        for ending, wanted in (("_bytes", "B"), ("_percent", "%"), ("_per_s", "/s")):
            if key.endswith(ending) and unit != "as above":
                assert unit == wanted, key


def test_the_reader_of_the_page_expands() -> None:
    assert expanded("a.{b, c}.d{1, 2}") == ["a.b.d1", "a.b.d2", "a.c.d1", "a.c.d2"]
    assert documented("kvsim.summary/1")["latency.itl_s.p99"] == "s"
