"""Folders of kept runs that a killed process left go; nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.folders.kept import PREFIX, KeptFolder, remove_left

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
HOLD = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from kvsim.sim.folders.kept import KeptFolder
folder = KeptFolder()
(folder.path / "1.pickle").write_bytes(b"run")
print(folder.path.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make_older(folder: Path) -> None:
    long_ago_s = time.time() - 90_000
    os.utime(folder, (long_ago_s, long_ago_s))


def left(temp: Path) -> Path:
    """A folder as a killed process of yesterday leaves it."""
    folder = temp / f"{PREFIX}abc_1234"
    folder.mkdir()
    for name in ("1.pickle", ".2.pickle.part"):
        (folder / name).write_bytes(b"x")
    make_older(folder)
    return folder


def test_what_a_killed_process_left_goes_with_the_next_folder(temp: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(temp)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = temp / process.stdout.readline().strip()
        make_older(folder)
        remove_left()
        assert folder.exists(), "its process lives"
        process.send_signal(signal.SIGKILL)
    assert folder.exists(), "nobody could remove it"
    new = KeptFolder()
    assert [path.name for path in temp.iterdir()] == [new.path.name]
    new.take_away()
    assert list(temp.iterdir()) == []


def test_a_day_must_have_passed(temp: Path) -> None:
    folder = left(temp)
    os.utime(folder)
    remove_left()
    assert folder.exists()


def link_in_place(folder: Path) -> None:
    real = folder.with_name("elsewhere")
    folder.rename(real)
    folder.symlink_to(real)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "mine.txt").write_text("keep", "utf-8"),
        lambda folder: (folder / "1.pickle.old").mkdir(),
        lambda folder: (folder / "3.pickle").mkdir(),
        lambda folder: (folder / "3.pickle").symlink_to("1.pickle"),
        lambda folder: folder.rename(folder.with_name(f"{PREFIX}of-mine")),
        link_in_place,
    ],
)
def test_what_may_not_be_ours_stays(temp: Path, change: Callable[[Path], object]) -> None:
    folder = left(temp)
    change(folder)
    if folder.exists():
        make_older(folder)
    before = sorted(temp.rglob("*"))
    remove_left()
    assert sorted(temp.rglob("*")) == before


def test_a_folder_of_another_user_stays(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left(temp)
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    remove_left()
    assert folder.exists()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    remove_left()
    assert not folder.exists()
