"""What is printed as JSON keeps its schema, which lists every key and no other."""

from __future__ import annotations

import copy
import json
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from kvsim.cli.main import main
from kvsim.cli.trace.info import info_document
from kvsim.sim.comparison.comparison import compare
from kvsim.sim.documents import document_names, document_of
from kvsim.sim.documents.json_schema import is_number, json_schema, value_of
from kvsim.sim.documents.summary import Limits
from kvsim.sim.run.folder import manifest, to_json
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces import bundled_path
from kvsim.traces.common.part import Part, key, keys_of
from kvsim.traces.trace.receipt import Receipt
from kvsim.traces.trace.statistics import statistics_of
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS = {"s", "ns", "B", "%", "/s", "1", "in `unit`"}
TRACE = Trace(
    name="t",
    arrival_ns=np.arange(40, dtype=np.int64) * 5_000_000,
    prompt_tokens=np.tile(np.array([300, 900, 60, 4000], dtype=np.int64), 10),
    output_tokens=np.tile(np.array([200, 1, 300, 40], dtype=np.int64), 10),
    sha256="0" * 64,
)
KEPT = {
    "retention__kind": "heavy-hitters",
    "retention__budget": 256,
    "engine__enable_prefix_caching": False,
}
LOGS = Path(__file__).parents[2] / "data" / "startup"
CHAT = str(bundled_path("chat-2k"))


def scenario(preset: str, **values: Any) -> Scenario:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return Scenario.load(preset).with_values({"engine.max_model_len": 6000, **named})


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of attention scores."""
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    lines = (f"0,{place},{place % 7 + 1}\n" for place in range(6000))
    path.write_text("layer,position,score\n" + "".join(lines))
    return str(path)


@pytest.fixture(scope="module")
def summaries(scores: str) -> list[Any]:
    """Summaries of runs that differ in all that a summary may tell."""
    few, budget = {"engine__num_gpu_blocks_override": 300}, {"engine__max_num_batched_tokens": 1024}
    slo = {"slo__ttft": "2s", "slo__tpot": "50ms", "slo__e2e": "9s"}
    guessed = {"allocator__reservation": "predicted", "predictor__kind": "quantile"}
    users = replace(TRACE, user=["heavy", "light", "light", "other"] * 10)
    named = simulate(users, scenario("vllm-0.32", queue__policy="fair")).summary.to_dict()
    return [json.loads(to_json(named))] + [
        json.loads(to_json(simulate(TRACE, one).summary.to_dict()))
        for one in (
            scenario("vllm-0.32", **few, **budget, **slo, engine__max_model_len=3000),
            scenario("vllm-v0", **few, preemption__mode="auto"),
            scenario(
                "orca-max",
                engine__kv_memory="1GiB",
                allocator__reservation="predicted",
                predictor__kind="oracle",
            ),
            scenario("orca-max", engine__kv_memory="1GiB", **guessed),
            scenario("vllm-0.32", **KEPT, **budget, retention__compaction="eager"),
            scenario("vllm-0.32", **KEPT, **budget, retention__scores=scores),
            scenario("vllm-0.32", **{**KEPT, "retention__kind": "sinks-recent"}, **budget),
        )
    ]


def held(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Places of a schema that a document fills."""
    if isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
        for name, one in value.items():
            known = name in schema.get("properties", {})
            below = schema["properties"][name] if known else schema["additionalProperties"]
            yield from held(one, below, f"{path}.{name if known else '*'}".lstrip("."))
    elif isinstance(value, list) and "items" in schema:
        for one in value:
            yield from held(one, schema["items"], f"{path}[]")
        if not value and "properties" not in schema["items"]:
            yield f"{path}[]"
    elif value is not None:
        yield path


def places(schema: Any, path: str = "") -> Iterator[str]:
    """All that a document of a schema may fill."""
    below = dict(schema.get("properties", {}))
    if isinstance(schema.get("additionalProperties"), dict):
        below["*"] = schema["additionalProperties"]
    for name, one in below.items():
        yield from places(one, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from places(schema["items"], f"{path}[]")
    elif not below:
        yield path


def assert_documented(documents: list[Any], name: str, never: set[str] | None = None) -> None:
    """No key of the documents is unlisted, and none that is listed is in no document."""
    document = document_of(name)
    assert {one["schema"] for one in documents} == {document.schema}
    closed = json_schema(document, closed=True)
    Draft202012Validator.check_schema(closed)
    check = Draft202012Validator(closed)
    for one in documents:
        assert [error.message for error in check.iter_errors(one)] == []
    found = {place for one in documents for place in held(one, closed)} | (never or set())
    assert {*places(closed)} - found == set(), "listed, but in no document"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments]) == code
    return json.loads(capsys.readouterr().out)


def test_summaries(
    summaries: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--limit", "30", "--out", str(tmp_path / "run"), "--json")
    run = printed(capsys, "simulate", CHAT, *out)
    assert json.loads((tmp_path / "run" / "summary.json").read_text("utf-8")) == run
    assert_documented([*summaries, run], "summary")


def test_comparisons(scores: str, capsys: pytest.CaptureFixture[str]) -> None:
    users = ["heavy", "light", "light", "other"] * 10
    rows = {
        "tight": scenario("vllm-0.32", engine__num_gpu_blocks_override=400, slo__ttft="2s"),
        "future": scenario("vllm-0.32", eviction__policy="furthest-next-use", slo__ttft="2s"),
        "lru": scenario("vllm-0.32", slo__ttft="2s"),
        "chosen": scenario("vllm-0.32", **KEPT, retention__scores=scores),
    }
    too_long = TRACE.prompt_tokens + 9000  # all are refused, and no time passes
    refused = replace(TRACE, arrival_ns=TRACE.arrival_ns * 0, prompt_tokens=too_long)
    traces = (replace(TRACE, user=users), refused)
    found = [json.loads(to_json(compare(trace, rows, jobs=1).to_dict())) for trace in traces]
    options = ("--limit", "30", "--allocators", "paged,orca-max", "--json")
    found.append(printed(capsys, "compare", CHAT, *options))
    assert_documented(found, "comparison", never={"published"})


def test_plans(capsys: pytest.CaptureFixture[str]) -> None:
    log = min(LOGS.glob("*.log"))
    found = [
        printed(capsys, "plan", "--json", *options.split(), code=code)
        for options, code in (
            ("", 0),
            ("--engine sglang", 0),
            ("--engine llama.cpp", 0),
            ("--model gemma-3-27b --num-blocks 900", 0),
            (f"--pp 2 --swap-space 4 --trace {CHAT}", 0),
            (f"--match-log {log}", 0),
            ("--hardware t4 --swap-space 4", 2),
            ("--model llama-3.1-70b", 2),
        )
    ]
    assert_documented(found, "plan")


def test_other_documents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert main(["simulate", CHAT, "--limit", "30", "--out", run]) == 0
    made = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    by_hand = json.loads(to_json(manifest(simulate(TRACE, scenario("orca-max"))).to_dict()))
    assert_documented([made, by_hand], "manifest")
    assert_documented([printed(capsys, "explain", run, "--json")], "explain")
    assert_documented([printed(capsys, "plan", "--levers", "--json")], "levers")
    kinds = [printed(capsys, "list", *kind, "--json") for kind in ([], ["models"])]
    assert_documented(kinds, "list")
    infos = [printed(capsys, "trace", "info", CHAT, "--json"), *(odd_infos())]
    assert_documented(infos, "trace-info")
    reuse = ("trace", "reuse", CHAT, "--limit", "60", "--policies", "fifo", "--json")
    found = [printed(capsys, *reuse), printed(capsys, *reuse, "--sessions", *KV_TOKEN)]
    assert_documented(found, "reuse")


def odd_infos() -> list[Any]:
    """What is told of a trace without a file, and of one whose file has every fault."""
    why = {"why": (3, 7)}
    receipt = replace(
        Receipt("x.csv", "kvsim-csv", "ns", epoch="0 s", id_scope="global", ids_partial=True),
        skipped=why,
        clipped=why,
        failed=why,
        unusable=why,
        num_timed=3,
        notes=["one"],
    )
    users = replace(TRACE, receipt=receipt, user=["a", "b"] * 20)
    found = [info_document(trace, statistics_of(trace)) for trace in (TRACE, users)]
    return [json.loads(json.dumps(one.to_dict())) for one in found]


KV_TOKEN = ("--kv-bytes-per-token", "131072")


def leaves(value: Any, schema: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all keys of a document whose names do not come from the run."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in schema.get("properties", {}):
                yield (*at, key)
                yield from leaves(one, schema["properties"][key], (*at, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], schema.get("items", {}), (*at, 0))


def test_a_missing_a_renamed_and_a_mistyped_key_are_caught(summaries: list[Any]) -> None:
    """Each key of a summary, one after another."""
    schema = json_schema(document_of("summary"))
    check = Draft202012Validator(schema)
    document = next(one for one in summaries if one["goodput"] is not None)
    assert check.is_valid(document)
    assert check.is_valid(document | {"new": 1}), "keys may come without a new version"
    tried = 0
    for path in leaves(document, schema):
        changed = copy.deepcopy(document)
        place = changed
        for step in path[:-1]:
            place = place[step]
        value = place.pop(path[-1])
        if path[:2] != ("goodput", "slo") or len(path) < 3:  # limits that are given
            assert not check.is_valid(changed), f"{path} is missing"
            place[f"{path[-1]}_s"] = value
            assert not check.is_valid(changed), f"{path} is renamed"
        place[path[-1]] = "1" if isinstance(value, int | float) else 1.5
        assert not check.is_valid(changed), f"{path} is of another type"
        tried += 1
    assert tried > 200


def test_every_schema_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    names = document_names()
    assert {"summary", "comparison", "plan", "manifest"} <= {*names}
    ids = set()
    for name in names:
        schema = printed(capsys, "schema", name)
        Draft202012Validator.check_schema(schema)
        assert schema["properties"]["schema"]["const"] == document_of(name).schema
        ids.add(schema["$id"])
    assert len(ids) == len(names)
    assert main(["schema"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:] if line[2] != " "] == names
    assert max(map(len, lines)) <= 80
    assert main(["schema", "summry"]) == 2
    assert "'summry' is unknown (did you mean 'summary'?); choices: " in capsys.readouterr().err


def parts(part: type[Part], unit: str = "") -> Iterator[tuple[type[Part], str]]:
    """A part and all below it, with the unit that each is given."""
    yield part, unit
    hints = get_type_hints(part)
    for item in keys_of(part):
        below = value_of(hints[item.name])
        if isinstance(below, type) and issubclass(below, Part):
            yield from parts(below, item.metadata["unit"] or unit)


def test_numbers_have_the_unit_that_their_names_say() -> None:
    for name in document_names():
        for part, inherited in parts(document_of(name)):
            hints = get_type_hints(part)
            for item in keys_of(part):
                unit = item.metadata["unit"] or inherited
                if not is_number(hints[item.name]):
                    continue
                assert unit in UNITS, (part, item.name)
                for ending, wanted in (("_bytes", "B"), ("_percent", "%"), ("_per_s", "/s")):
                    assert unit == wanted or not item.name.endswith(ending), (part, item.name)


def test_parts_are_frozen_and_whole() -> None:
    class Small(Part):
        odd_name: int = key("1", "kept", name="odd name")
        absent: int | None = key("1", "left out", optional=True)
        below: list[Limits] = key("s", "limits")
        own: object = field(compare=False, repr=False)

    limits = Limits(ttft_s=1.0, tpot_s=None, e2e_s=None)
    small = Small(odd_name=1, absent=None, below=[limits], own=object())
    assert small.to_dict() == {"odd name": 1, "below": [{"ttft_s": 1.0}]}
    assert small == replace(small, own=None) != replace(small, absent=1)
    assert "own" not in repr(small)
    with pytest.raises(FrozenInstanceError):
        small.odd_name = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="below"):
        Small(odd_name=1, absent=None, own=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no other"):
        Limits(ttft_s=1.0, tpot_s=None, e2e_s=None, other=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        small["odd_name"]  # type: ignore[index]
