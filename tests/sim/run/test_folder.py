"""Run folders: contents, equal bytes, refusal of strange folders, slices."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from kvsim.sim.folders.place import check_run_folder
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.run import folder as run_folder
from kvsim.sim.run.folder import write_run
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
    assert summary == json.loads(json.dumps(run.summary))
    assert summary["schema"] == "kvsim.summary/1"


def test_tables_on_disk_equal_the_frames(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_folder, "ROWS_PER_SLICE", 2)  # three requests in two slices
    run = make_run(*three_requests)
    run.save(tmp_path)
    requests = pd.read_parquet(tmp_path / "requests.parquet")
    assert requests["request"].tolist() == ["r0000", "r0001", "r0002"]
    assert requests["status"].tolist() == ["finished", "finished", "refused"]
    assert requests["ttft_s"].tolist()[:2] == pytest.approx([0.105, 0.2])
    assert requests["ttft_s"].isna().tolist() == [False, False, True]
    assert requests["stall_s"].tolist() == pytest.approx([0, 0.06, 0])
    for column in requests.columns:
        assert requests[column].tolist() == pytest.approx(
            run.requests[column].tolist(), nan_ok=True
        )
    series = pd.read_parquet(tmp_path / "series.parquet")
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
    make_run(*three_requests, partial=True).save(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["partial"] is True
    assert json.loads((tmp_path / "summary.json").read_text())["partial"] is True
    assert "Partial" in (tmp_path / "report.html").read_text()


def test_only_runs_and_empty_folders_are_written_over(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = make_run(*three_requests)
    check_run_folder(tmp_path / "absent")
    check_run_folder(tmp_path)
    write_run(run, tmp_path)
    write_run(run, tmp_path)
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("years of work")
    with pytest.raises(ValueError, match="exists and is not a run of kvsim"):
        write_run(run, thesis)
    assert [path.name for path in thesis.iterdir()] == ["chapter.tex"]
    (thesis / "manifest.json").write_text("[]")
    with pytest.raises(ValueError, match="exists and is not a run of kvsim"):
        check_run_folder(thesis)
    with pytest.raises(ValueError, match="is a file"):
        check_run_folder(thesis / "chapter.tex")


def test_a_failed_write_leaves_the_earlier_run_whole(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_run(make_run(*three_requests), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}

    def fail(_run: Run) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(run_folder, "run_page", fail)
    with pytest.raises(OSError, match=f"cannot be written into {tmp_path}: disk full"):
        write_run(make_run(*three_requests, partial=True), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_without_requests_is_written(make_run: Callable[..., Run], tmp_path: Path) -> None:
    empty = np.empty(0, dtype=np.int64)
    make_run(Trace("none", empty, empty, empty), Recorder(0)).save(tmp_path)
    assert len(pd.read_parquet(tmp_path / "requests.parquet")) == 0


def test_drafts_of_a_killed_run_are_no_obstacle(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    for name in (".requests.parquet.part", ".blocks.parquet.part"):
        (tmp_path / name).write_bytes(b"PAR1")
    make_run(*three_requests).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_places_that_cannot_hold_a_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"file is a file, so .*file/a/b cannot be made; --out"):
        check_run_folder(tmp_path / "file" / "a" / "b")
    (tmp_path / "link").symlink_to("nowhere")
    for place in ("link", "link/a"):
        with pytest.raises(ValueError, match="link is a link to nowhere, which does not exist"):
            check_run_folder(tmp_path / place)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path} may not be written"):
        check_run_folder(tmp_path / "a" / "b")


def test_what_a_killed_overwriting_leaves_is_written_over(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    write_run(make_run(*three_requests), tmp_path)
    (tmp_path / "manifest.json").rename(tmp_path / ".manifest.json.part")
    check_run_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a run of kvsim"):
        check_run_folder(tmp_path)


def test_a_manifest_is_there_only_with_a_whole_run(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run(*three_requests)
    write_run(run, tmp_path)
    seen = []
    replace = type(tmp_path).replace

    def watched(self: Path, target: Path) -> Path:
        seen.append((target.name, (tmp_path / "manifest.json").exists()))
        return replace(self, target)

    monkeypatch.setattr(type(tmp_path), "replace", watched)
    write_run(run, tmp_path)
    assert seen[-1] == ("manifest.json", False)
    assert [there for _, there in seen] == [False] * 5


def test_ctrl_c_waits_until_the_run_is_written(
    three_requests: Run3,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run(*three_requests)

    def interrupted(_run: Run) -> str:
        signal.raise_signal(signal.SIGINT)
        return "report"

    monkeypatch.setattr(run_folder, "run_page", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        write_run(run, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_is_written_from_another_thread(
    three_requests: Run3, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    thread = threading.Thread(target=write_run, args=(make_run(*three_requests), tmp_path))
    thread.start()
    thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
