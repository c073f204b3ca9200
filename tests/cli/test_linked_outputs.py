"""Files are written under another name and renamed: a link stays one, its file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kvsim.calibrate.measure.raw_points import RawPoints
from kvsim.calibrate.profile_output import check_output, write_whole
from kvsim.cli.main import main
from kvsim.sim.folders.place import drafted
from kvsim.sim.report.page_file import write_page
from kvsim.traces import bundled_path, fetch, read_trace, write_trace
from kvsim.traces.common.final_path import final_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHAT: Final = str(bundled_path("chat-2k"))


def write_text(path: Path) -> None:
    with drafted(path) as draft:
        draft.write_text("new", "utf-8")


def simulate(path: Path) -> None:
    run = path.parent / "run"
    assert main(["simulate", CHAT, "--limit=3", f"--out={run}", f"--perfetto={path}"]) == 0


def fetch_file(path: Path) -> None:
    source = path.parent / "source"
    source.write_text("fetched", "utf-8")
    entry = fetch.Entry("a", "a trace", source.as_uri(), "none", max_bytes=100)
    fetch.fetch(entry, path, schemes=("file",))


WRITERS: Final[dict[str, Callable[[Path], object]]] = {
    "draft": write_text,
    "timeline": simulate,
    "page": lambda path: write_page(["page"], path),
    "profile": lambda path: write_whole("profile", path),
    "points": lambda path: RawPoints(path, {}).save(),
    "trace": lambda path: write_trace(read_trace(CHAT, limit=3), path),
    "fetched": fetch_file,
}


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_what_a_link_leads_to_is_written(
    tmp_path: Path, write: Callable[[Path], object], *, exists: bool
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    target, link = disk / "there.csv", tmp_path / "here.csv"
    if exists:
        target.write_text("old", "utf-8")
    link.symlink_to("disk/there.csv")
    write(link)
    assert link.is_symlink()
    assert target.read_text("utf-8") not in {"", "old"}
    assert [one.name for one in disk.iterdir()] == ["there.csv"], "no draft stays"


@pytest.mark.parametrize("writer", sorted({*WRITERS} - {"timeline"}))
def test_a_link_that_leads_to_itself(tmp_path: Path, writer: str) -> None:
    link = tmp_path / "a.csv"
    link.symlink_to(link)
    with pytest.raises((OSError, ValueError), match=r"a\.csv is a link that leads to itself"):
        WRITERS[writer](link)
    assert link.is_symlink()


def test_a_folder_that_leads_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "loop"
    link.symlink_to(link)
    words = ["simulate", CHAT, f"--out={tmp_path / 'run'}", f"--perfetto={link / 'a.json'}"]
    assert main(words) == 2
    assert f"the folder {link} does not exist" in capsys.readouterr().err


def test_a_link_into_no_folder_is_told_before_any_work(tmp_path: Path) -> None:
    link = tmp_path / "a.html"
    link.symlink_to(tmp_path / "absent" / "a.html")
    for check in (check_output, lambda path: write_page([], path)):
        with pytest.raises(ValueError, match=r"there is no folder .*absent"):
            check(link)


def test_a_link_to_a_part_of_the_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, run = tmp_path / "timeline.json", tmp_path / "run"
    link.symlink_to(run / "summary.json")
    assert main(["simulate", CHAT, f"--out={run}", f"--perfetto={link}"]) == 2
    assert "is a part of the run folder" in capsys.readouterr().err


def test_no_link_is_its_own_name(tmp_path: Path) -> None:
    assert final_path(tmp_path / "a") == tmp_path / "a"
