"""Run folders: names, contents, equal bytes, slices."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from kvsim.sim.folders import place as run_place
from kvsim.sim.folders.place import latest_result
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.run import folder as run_folder
from kvsim.sim.scenario.loader import scenario_from_dict
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.sim.run.run import Run

FILES = ["manifest.json", "report.html", "requests.parquet", "series.parquet", "summary.json"]

Run3 = tuple[Trace, Recorder]


def test_a_run_folder_holds_five_files(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = make_run(*three_requests)
    run.save(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert scenario_from_dict(manifest["scenario"]) == Scenario()
    assert manifest["trace"] == {
        "name": "tiny",
        "sha256": "0" * 64,
        "requests": 3,
        "source": None,
    }
    assert manifest["partial"] is False
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary == json.loads(json.dumps(run.summary.to_dict()))
    assert summary["schema"] == "kvsim.summary/1"


def test_tables_on_disk_equal_the_frames(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_folder, "ROWS_PER_SLICE", 2)  # three requests in two slices
    run = make_run(*three_requests)
    folder = run.save(tmp_path / "run")
    requests = pd.read_parquet(folder / "requests.parquet")
    assert requests["request"].tolist() == ["r0000", "r0001", "r0002"]
    assert requests["status"].tolist() == ["finished", "finished", "refused"]
    assert requests["ttft_s"].tolist()[:2] == pytest.approx([0.105, 0.2])
    assert requests["ttft_s"].isna().tolist() == [False, False, True]
    assert requests["stall_s"].tolist() == pytest.approx([0, 0.06, 0])
    for column in requests.columns:
        assert requests[column].tolist() == pytest.approx(
            run.requests[column].tolist(), nan_ok=True
        )
    series = pd.read_parquet(folder / "series.parquet")
    assert series.equals(run.series)
    states = [f"{state}_bytes" for state in STATES]
    assert np.allclose(series[states].sum(axis=1), 17_700), "states add up to the pool"
    assert series["seconds"].sum() == pytest.approx(0.31)


def test_the_same_run_gives_the_same_bytes(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        make_run(*three_requests).save(tmp_path / name)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_partial_run_says_so(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    make_run(*three_requests, partial=True).save(folder := tmp_path / "run")
    assert json.loads((folder / "manifest.json").read_text())["partial"] is True
    assert json.loads((folder / "summary.json").read_text())["partial"] is True
    assert "Partial" in (folder / "report.html").read_text()


def test_a_run_without_requests_is_written(make_run: Callable[..., Run], tmp_path: Path) -> None:
    empty = np.empty(0, dtype=np.int64)
    make_run(Trace("none", empty, empty, empty), Recorder(0)).save(tmp_path / "run")
    assert len(pd.read_parquet(tmp_path / "run" / "requests.parquet")) == 0


@pytest.mark.parametrize("fault", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_nothing(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: BaseException,
) -> None:
    def fail(_run: Run) -> str:
        raise fault

    monkeypatch.setattr(run_folder, "run_page", fail)
    told = f"{tmp_path}/a/b cannot be written: disk full" if isinstance(fault, OSError) else "^$"
    with pytest.raises(type(fault), match=told):
        make_run(*three_requests).save(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_run_saved_twice_stays_as_it_was(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = make_run(*three_requests)
    assert run.save(tmp_path / "run") == tmp_path / "run"
    with pytest.raises(ValueError, match="run is there already, and nothing is written over it"):
        make_run(*three_requests, partial=True).save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["partial"] is False


def test_without_a_name_each_run_has_a_folder_of_its_own(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two within a second, too; the same name at another time holds the same bytes."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="there is no kvsim-runs/latest, which names the latest"):
        latest_result()
    run = make_run(*three_requests)
    first, second = run.save(), run.save()
    assert first != second == latest_result()
    assert first.parent.as_posix() == "kvsim-runs"
    assert re.fullmatch(r"[0-9]{8}-[0-9]{6}-tiny(-2)?", second.name)
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    second.rename("elsewhere")
    with pytest.raises(
        ValueError, match=r"latest names '\S*-tiny\S*', which is no folder in kvsim-runs: name"
    ):
        latest_result()


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        ("chat-2k", "chat-2k"),
        ("a/../b: c?.jsonl", "a-..-b-c-.jsonl"),
        ("\udcff\x1b", "-"),
        ("dots...", "dots"),
        ("x" * 300, "x" * 40),
    ],
)
def test_a_default_name_is_one_for_every_system(trace: str, name: str) -> None:
    names = run_place._names(trace, datetime(2026, 12, 1, 9, 5, 7))
    stem = f"kvsim-runs/20261201-090507-{name}"
    assert [next(names).as_posix() for _ in range(3)] == [stem, f"{stem}-2", f"{stem}-3"]


@pytest.mark.parametrize("name", ["", "..", ".", "/etc", "a/b", "../elsewhere", "gone", "x" * 500])
def test_only_the_plain_name_of_a_folder_is_the_latest_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kvsim-runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kvsim-runs" / "latest").write_text(name)
    with pytest.raises(
        ValueError, match=r"^kvsim-runs/latest .*: name the folder of a run$"
    ) as told:
        latest_result()
    assert len(str(told.value)) < 250
