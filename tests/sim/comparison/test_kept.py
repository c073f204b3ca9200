"""Runs that a comparison keeps: the same as single ones, in any number of processes, then gone."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import tempfile
from dataclasses import replace
from multiprocessing.util import get_temp_dir
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from kvsim import sim
from kvsim.cli.main import main
from kvsim.sim.comparison import kept_runs as comparison_kept
from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces import bundled_path, read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

SMALL = {"engine.kv_memory": "1GiB", "engine.max_model_len": 4096}
NAMES = ["orca-oracle", "paged", "prefix"]


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; but those of multiprocessing, which stay to the end."""
    get_temp_dir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def chat(limit: int = 30) -> Trace:
    return read_trace(bundled_path("chat-2k"), limit=limit)


def scenarios(*names: str) -> dict[str, Scenario]:
    named = allocator_scenarios(",".join(names or NAMES))
    return {name: scenario.with_values(SMALL) for name, scenario in named.items()}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_tables_are_those_of_single_runs(jobs: int) -> None:
    trace = chat()
    found = compare(trace, scenarios(), jobs=jobs, rate_scale=30)
    alone = {name: simulate(trace, one, rate_scale=30) for name, one in scenarios().items()}
    for ours, wanted in (
        (found.requests, {name: run.requests for name, run in alone.items()}),
        (found.series, {name: run.series for name, run in alone.items()}),
    ):
        assert ours.columns.tolist() == ["name", *wanted["paged"].columns]
        assert isinstance(ours["name"].dtype, pd.CategoricalDtype)
        assert ours["name"].cat.categories.tolist() == NAMES, "in the order of the rows"
        assert ours.index.tolist() == list(range(len(ours)))
        assert ours["name"].tolist() == [name for name in NAMES for _ in range(len(wanted[name]))]
        for name, frame in wanted.items():
            part = ours[ours["name"] == name].drop(columns="name").reset_index(drop=True)
            pd.testing.assert_frame_equal(part, frame, check_exact=True)
    assert list(found.runs) == NAMES
    for name, run in alone.items():
        assert found.runs[name].summary == run.summary


def turns() -> Trace:
    """Two sessions of two turns."""
    after = np.array([-1, -1, 0, 1])
    unknown = np.full(4, -1)
    return replace(chat(4), after_request=after, delay_ns=unknown, session=[*"abab"])


@pytest.mark.parametrize(
    ("preset", "values", "trace", "options"),
    [
        ("vllm-0.32", {}, turns, {"closed": True, "think_time": "exponential(mean=2s)"}),
        ("vllm-0.32", {}, turns, {"num_users": 1, "think_time": "1s", "seed": 3}),
        ("vllm-0.32", {}, chat, {"timeout": "2s", "rate_scale": "70/3"}),
        ("vllm-v0", {"preemption.mode": "swap", "preemption.swap_space": "1GiB"}, chat, {}),
        (
            "orca-pow2",
            {"allocator.compaction": "when-blocked", "allocator.placement": "best-fit"},
            chat,
            {"rate_scale": 30},
        ),
        ("vllm-0.32", {"retention.kind": "fifo", "retention.budget": 64}, chat, {}),
        ("vllm-0.32", {"allocator.prefix": "radix"}, chat, {"step": True}),
    ],
)
def test_a_kept_run_has_all_of_a_run(
    preset: str, values: dict[str, object], trace: Any, options: dict[str, Any]
) -> None:
    scenario, requests = load_scenario(preset).with_values(SMALL | values), trace()
    (ours,) = compare(requests, {"one": scenario}, jobs=1, **options).runs.values()
    wanted = simulate(requests, scenario, **options)
    assert ours.summary == wanted.summary
    pd.testing.assert_frame_equal(ours.requests, wanted.requests, check_exact=True)
    pd.testing.assert_frame_equal(ours.series, wanted.series, check_exact=True)
    assert ours.options == wanted.options


def test_samples_of_a_request_are_one_row() -> None:
    trace = replace(chat(20), num_samples=np.full(20, 3))
    found = compare(trace, scenarios("prefix"), jobs=1)
    wanted = simulate(trace, scenarios("prefix")["prefix"])
    pd.testing.assert_frame_equal(found.runs["prefix"].requests, wanted.requests, check_exact=True)


def test_runs_that_serve_nobody_have_their_rows() -> None:
    tiny = scenarios("paged")["paged"].with_values({"engine.max_model_len": 16})
    found = compare(chat(5), {"a": tiny, "b": tiny}, jobs=1)
    assert found.requests["status"].tolist() == ["refused"] * 10
    assert found.requests["ttft_s"].isna().all()
    half = compare(chat(5), {"a": tiny, "b": scenarios("paged")["paged"]}, jobs=1)
    assert {curve.xaxis for curve in half.plot.latency().data} == {"x2"}, "an empty panel"
    assert len(found.series) == sum(len(run.series) for run in found.runs.values())
    with pytest.raises(ValueError, match="nothing to draw: Latency distributions: no request"):
        found.plot.latency()


def test_several_traces_and_rates_are_told_apart() -> None:
    trace = chat(10)
    both = [trace, replace(trace, name="b")]
    found = compare(both, scenarios("paged"), jobs=1, rate_scale=[1, 2])
    assert list(found.runs) == found.frame["name"].tolist()
    assert found.runs["paged, b, rate x 2"].trace.name == "b"
    last = found.requests.groupby("name", observed=True)["arrival_s"].max()
    assert last["paged, b, rate x 2"] == pytest.approx(last["paged, chat-2k, rate x 1"] / 2)
    with pytest.raises(ValueError, match="two rows are called 'paged, chat-2k'"):
        compare([trace, trace], scenarios("paged"), jobs=1)


def test_nothing_is_left_behind(temp: Path) -> None:
    found = compare(chat(10), scenarios("paged"), jobs=1)
    run = found.runs["paged"]
    assert len(list(temp.iterdir())) == 1
    assert "kept=" not in repr(found)
    del found
    gc.collect()
    assert list(temp.iterdir()) == []
    assert len(run.requests) == 10, "what was taken out stays"


def test_a_script_prints_one_line_and_reads_the_names_there_are() -> None:
    found = compare(chat(10), scenarios("paged", "prefix"), jobs=1)
    assert repr(found) == "<Comparison of 2 runs on chat-2k: paged, prefix>"
    with pytest.raises(KeyError) as error:
        found.runs["nope"]
    assert str(error.value) == "no run is called 'nope'; there are 'paged', 'prefix'"
    assert "nope" not in found.runs
    assert found.runs.get("nope") is None


def test_what_scripts_need_is_at_the_door() -> None:
    assert sim.compare is compare
    assert sim.allocator_scenarios is allocator_scenarios


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_comparison_that_fails_leaves_nothing(temp: Path, jobs: int) -> None:
    named = scenarios("paged", "prefix").items()
    fair = {name: scenario.with_values({"queue.policy": "fair"}) for name, scenario in named}
    with pytest.raises(ValueError, match=r"^(paged|prefix): queue.policy = 'fair'") as caught:
        compare(replace(chat(5), session=None), fair, jobs=jobs)
    assert caught.tb is not None, "its frames are still held"
    assert list(temp.iterdir()) == []


def test_who_wants_the_table_alone_has_no_files(temp: Path) -> None:
    found = compare(chat(5), scenarios("paged"), jobs=1, keep_runs=False)
    assert list(temp.iterdir()) == []
    for ask in (lambda: found.requests, lambda: found.series, found.plot.latency):
        with pytest.raises(ValueError, match="holds no runs: call compare with keep_runs=True"):
            ask()


def test_the_command_keeps_no_runs(
    temp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison_kept, "OwnFolder", None)
    few = ["--limit", "5", "--allocators", "paged", "--jobs", "1"]
    assert main(["compare", str(bundled_path("chat-2k")), *few]) == 0
    assert capsys.readouterr().out
    assert list(temp.iterdir()) == []


def test_copies_share_the_runs_and_pickles_have_none(temp: Path) -> None:
    found = compare(chat(5), scenarios("paged"), jobs=1)
    pickled = pickle.loads(pickle.dumps(found))
    copies = [copy.copy(found), copy.deepcopy(found), replace(found, notes=("a",))]
    del found
    gc.collect()
    assert [len(one.requests) for one in copies] == [5, 5, 5]
    assert pickled == copies[0]
    with pytest.raises(ValueError, match="holds no runs"):
        pickled.requests  # noqa: B018
    del copies[:]
    gc.collect()
    assert list(temp.iterdir()) == []


def test_a_forked_process_takes_nothing_away(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare(chat(5), scenarios("paged"), jobs=1)
    gc.collect()  # what other tests left is not to end under another process id
    monkeypatch.setattr(os, "getpid", lambda: -1)
    del found
    gc.collect()
    assert len(list(temp.glob("*/*"))) == 1


def test_a_run_whose_file_is_gone_is_told(temp: Path) -> None:
    found = compare(chat(5), scenarios("paged"), jobs=1)
    for path in temp.glob("*/*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"^paged: its run is no longer in .* compare again"):
        found.requests  # noqa: B018
    with pytest.raises(KeyError, match="lisp"):
        found.runs["lisp"]


@pytest.mark.parametrize("content", [b"", b"garbage", b"half", b"\x80\x05K\x01."])
def test_a_run_whose_file_is_damaged_is_told(temp: Path, content: bytes) -> None:
    found = compare(chat(5), scenarios("paged"), jobs=1)
    (path,) = temp.glob("*/*")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content == b"half" else content)
    for ask in (lambda: found.runs["paged"], lambda: found.requests, found.plot.latency):
        with pytest.raises(ValueError, match=r"^paged: its run is no longer whole .* compare ag"):
            ask()


def test_a_full_disk_costs_the_runs_and_not_the_comparison(
    monkeypatch: pytest.MonkeyPatch, temp: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pickle, "dump", full)
    found = compare(chat(5), scenarios("paged"), jobs=1)
    assert found.frame["finished"].tolist() == [5]
    assert list(temp.glob("*/*")) == [], "no half file"
    with pytest.raises(ValueError, match="TMPDIR"):
        found.series  # noqa: B018


def test_panels_have_one_run_each_on_shared_axes() -> None:
    found = compare(chat(), scenarios("paged", "prefix"), jobs=1, rate_scale=30)
    figure = found.plot.latency()
    alone = [run.plot.latency() for run in found.runs.values()]
    assert [title.text for title in figure.layout.annotations] == ["paged", "prefix"]
    curves = [curve for one in alone for curve in one.data]
    assert [(c.name, c.x, c.y) for c in figure.data] == [(c.name, c.x, c.y) for c in curves]
    assert len({(curve.xaxis, curve.yaxis) for curve in figure.data}) == 2
    assert figure.layout.xaxis2.matches == "x"
    assert figure.layout.xaxis.type == alone[0].layout.xaxis.type
    assert figure.layout.yaxis2.matches == "y"
    named = [curve.name for curve in figure.data if curve.showlegend is not False]
    assert sorted(named) == sorted({curve.name for curve in curves}), "each once in the legend"
    drawn = compare(chat(5), {"<b>\"x'": scenarios("paged")["paged"]}, jobs=1).plot.latency()
    assert drawn.layout.annotations[0].text == "&lt;b&gt;\"x'"
