"""Trace events: the rules of the format, and that nothing is lost or drawn twice."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.sim.explain.perfetto import drawn, write_perfetto
from kvsim.sim.explain.timeline import Timeline
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.sim.run.run import Run

TRACE = Trace(
    name='tiny <b>"trace"</b>',
    arrival_ns=np.arange(40, dtype=np.int64) * 5_000_000,
    prompt_tokens=np.tile(np.array([300, 900, 60, 4000], dtype=np.int64), 10),
    output_tokens=np.tile(np.array([200, 1, 300, 40], dtype=np.int64), 10),
    sha256="0" * 64,
)
REQUIRED = {
    "M": {"pid", "name", "args"},
    "X": {"pid", "tid", "ts", "dur", "name", "args"},
    "C": {"pid", "ts", "name", "args"},
    "i": {"pid", "tid", "ts", "s", "name", "args"},
}
IDS = {"pid", "tid"}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def scenario(preset: str) -> Scenario:
    """A pool that is too small, so that requests wait and are put out."""
    found = Scenario.load(preset)
    paged = found.allocator.kind == "paged"
    size = {"engine.num_gpu_blocks_override": 400} if paged else {"engine.kv_memory": "3GiB"}
    budget = {} if preset in {"sglang-0.5", "orca-max"} else {"engine.max_num_batched_tokens": 1024}
    return found.with_values({**size, **budget, "engine.max_model_len": 6000})


def observed(
    trace: Trace = TRACE, preset: str = "vllm-0.32", *, most: int = 2000
) -> tuple[Run, Timeline]:
    timeline = Timeline(most)
    return simulate(trace, scenario(preset), observers=[timeline]), timeline


def written(run: Run, timeline: Timeline, path: Path) -> Any:
    write_perfetto(run, timeline, path)
    return json.loads(path.read_text(encoding="utf-8"))


def ns(us: float) -> int:
    """Nanoseconds as Perfetto's importer makes them: a fraction is cut, a whole number is exact."""
    assert type(us) in {int, float}
    assert us >= 0
    return us * 1000 if isinstance(us, int) else int(us * 1000.0)


def check_rules(document: Any) -> None:
    """The trace-event rules that Perfetto and Chrome rely on."""
    assert isinstance(document["traceEvents"], list)
    named: dict[tuple[int, int | None], str] = {}
    edges: dict[tuple[int, int], int] = defaultdict(int)
    counted: dict[tuple[int, str], tuple[int, set[str]]] = {}
    for event in document["traceEvents"]:
        phase = event["ph"]
        assert event.keys() == REQUIRED[phase] | {"ph"} | ({"tid"} & event.keys()), event
        assert isinstance(event["name"], str)
        assert event["name"]
        assert all(type(event[key]) is int and 0 < event[key] < 2**31 for key in IDS & event.keys())
        if phase == "M":
            assert event["name"] in METADATA
            assert ("tid" in event) == event["name"].startswith("thread_")
            if event["name"].endswith("_name"):
                place = event["pid"], event.get("tid")
                assert place not in named, "a number of its own for each process and thread"
                assert place[0] != place[1], "shown as the main thread of its process"
                named[place] = event["args"]["name"]
                assert named[place], "an empty name is left out"
                assert isinstance(named[place], str)
            else:
                assert isinstance(event["args"]["sort_index"], int)
            continue
        assert (event["pid"], None) in named, "events follow the name of their process"
        start = ns(event["ts"])
        if phase == "C":
            assert event["args"]
            assert all(
                type(value) in {int, float} and 0 <= value < np.inf
                for value in event["args"].values()
            )
            counter = event["pid"], event["name"]
            last_ns, values = counted.get(counter, (-1, set(event["args"])))
            assert start > last_ns, "a value at each time, and time goes on"
            assert values == set(event["args"]), "the same values all the time"
            counted[counter] = start, values
            continue
        track: tuple[int, int] = event["pid"], event["tid"]
        assert track in named, "events follow the name of their thread"
        if phase == "X":  # neighbours may touch; none reaches into another
            assert start >= edges[track], event
            assert ns(event["dur"]) > 0
            edges[track] = start + ns(event["dur"])
        else:
            assert event["s"] in {"t", "p", "g"}


@pytest.mark.parametrize("preset", ["vllm-0.32", "vllm-v0", "orca-max", "sglang-0.5"])
def test_the_file_keeps_the_rules(preset: str, tmp_path: Path) -> None:
    document = written(*observed(preset=preset), tmp_path / "t.json")
    check_rules(document)
    assert document["otherData"]["schema"] == "kvsim.perfetto/1"
    assert document["otherData"]["requests"] == "all 40 requests"


def event_of(document: Any, phase: str, name: str = "") -> Any:
    return next(e for e in document["traceEvents"] if e["ph"] == phase and name in e["name"])


def longer(document: Any) -> None:
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    first = next(one for one, two in itertools.pairwise(slices) if one["tid"] == two["tid"])
    first["dur"] += 1


def cut_edges(document: Any) -> None:
    """Two slices that meet at a fraction of a microsecond, which the importer cuts too short."""
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    one, two = next(pair for pair in itertools.pairwise(slices) if pair[0]["tid"] == pair[1]["tid"])
    one["ts"], one["dur"], two["ts"], two["dur"] = 1, 0.001, 1.001, 10
    assert one["ts"] + one["dur"] == two["ts"]


FAULTS: dict[str, Callable[[Any], object]] = {
    "overlap": longer,
    "edges that do not stay together": cut_edges,
    "no length": lambda document: event_of(document, "X").update(dur=0),
    "negative time": lambda document: event_of(document, "i").update(ts=-1),
    "main thread": lambda document: event_of(document, "M", "thread_name").update(tid=2),
    "text as number": lambda document: event_of(document, "X").update(tid="7"),
    "counter back in time": lambda document: document["traceEvents"].append(
        event_of(document, "C", "waiting")
    ),
    "value that is none": lambda document: event_of(document, "C", "preempted").update(
        args={"requests": None}
    ),
    "value gone": lambda document: event_of(document, "C", "KV memory")["args"].pop("free"),
    "name used twice": lambda document: document["traceEvents"].append(
        event_of(document, "M", "thread_name")
    ),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file that keeps the rules."""
    path = tmp_path_factory.mktemp("perfetto") / "t.json"
    check_rules(written(*observed(), path))
    return path.read_text("utf-8")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checker_can_fail(fault: str, text: str) -> None:
    document = json.loads(text)
    FAULTS[fault](document)
    with pytest.raises(AssertionError):
        check_rules(document)


def test_times_are_whole_microseconds(text: str) -> None:
    document = json.loads(text)
    times = [
        event[key] for event in document["traceEvents"] for key in ("ts", "dur") if key in event
    ]
    assert {type(time) for time in times} == {int}


def test_slices_of_a_request_add_up_to_its_latency(tmp_path: Path) -> None:
    run, timeline = observed()
    document = written(run, timeline, tmp_path / "t.json")
    took: dict[int, int] = defaultdict(int)
    kinds = set()
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            took[event["tid"]] += ns(event["dur"])
            kinds.add(event["name"].partition(":")[0])
    assert kinds == {"queued", "between chunks", "prefill", "decode", "preempted"}
    e2e_ns = run.requests["e2e_s"].to_numpy() * 1e9
    assert len(took) == 40
    for tid, total in took.items():
        assert total == pytest.approx(e2e_ns[tid - 3], abs=1001)


def test_counters_are_the_series(tmp_path: Path) -> None:
    run, timeline = observed()
    assert run.series["preempted"].max() > 0
    document = written(run, timeline, tmp_path / "t.json")
    memory = [e for e in document["traceEvents"] if e["name"] == "KV memory (bytes)"]
    assert len(memory) == len(run.series) <= 1024
    for event, row in zip(memory, run.series.to_dict("records"), strict=True):
        assert event["args"].keys() == STATES.keys()
        assert sum(event["args"].values()) == pytest.approx(run.setup.pool.pool_bytes, abs=6)
        now = {e["name"]: e["args"] for e in document["traceEvents"] if is_counter(e, event["ts"])}
        for name in ("running", "waiting", "preempted"):
            assert now[name]["requests"] == pytest.approx(row[name], abs=1e-3)
        free = (row["free_bytes"] + row["cached_bytes"]) / run.setup.pool.block_bytes
        assert now["KV blocks"]["free"] == pytest.approx(free, abs=0.01)


def is_counter(event: Any, ts: int) -> bool:
    return bool(event["ph"] == "C" and event["ts"] == ts)


def test_a_sample_says_so(tmp_path: Path) -> None:
    run, timeline = observed(most=7)
    document = written(run, timeline, tmp_path / "t.json")
    threads = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert threads == ["r0000", "r0005", "r0011", "r0017", "r0022", "r0028", "r0034"]
    assert document["otherData"]["requests"] == "7 of 40 requests, evenly over the trace"
    assert drawn(run, timeline) == document["otherData"]["requests"]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_same_run_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_perfetto(*observed(), tmp_path / folder / name)
    first, second = ((tmp_path / folder / name).read_bytes() for folder in ("a", "b"))
    assert first == second
    assert [path.name for path in (tmp_path / "a").iterdir()] == [name]
    if name.endswith(".gz"):
        check_rules(json.loads(gzip.decompress(first)))


def test_names_from_a_trace_stay_text(tmp_path: Path) -> None:
    trace = replace(TRACE, ids=[f'</script>"\n{i}\u2028' for i in range(40)])
    document = written(*observed(trace), tmp_path / "t.json")
    check_rules(document)
    assert any(
        event.get("args", {}).get("name") == '</script>"\n7\u2028'
        for event in document["traceEvents"]
    )


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    run, timeline = observed()

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvsim.sim.explain.perfetto._text", broken)
    with pytest.raises(OSError, match="No space"):
        write_perfetto(run, timeline, path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["t.json"]
