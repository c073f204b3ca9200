"""Files and folders that come whole or not at all, and drafts that killed processes leave."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from kvsim.traces.common import files
from kvsim.traces.common.files import (
    OwnFolder,
    check_new_folder,
    check_writable,
    drafted,
    new_folder,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
HOLD = """
import sys, time
from pathlib import Path
from kvsim.traces.common.files import new_folder
with new_folder([Path(sys.argv[1])]) as new:
    (new.draft / "half").write_bytes(b"x")
    print(new.draft.parent.name, flush=True)
    time.sleep(600)
"""


def full_disk() -> Iterator[str]:
    yield "half a page"
    raise OSError(errno.ENOSPC, "No space left on device")


def fill(path: Path, text: str = "whole", *others: Path) -> Path:
    with new_folder([path, *others]) as new, new.filled() as draft:
        (draft / "file").write_text(text, "utf-8")
    return new.path


def test_a_full_disk_leaves_the_old_page_and_is_told_with_its_name(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old", "utf-8")
    with pytest.raises(OSError, match=r"page\.html cannot be written: No space left") as caught:
        write_file(full_disk(), page)
    assert caught.value.errno == errno.ENOSPC
    assert page.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_no_file_is_there_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with drafted(path) as draft:
        draft.write_bytes(b"half")
        assert not path.exists()
        draft.write_bytes(b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with drafted(path) as first, first.open("w") as one:
        one.write("first, ")
        write_file(["second"], path)
        assert path.read_text() == "second"
        one.write("and last")
    assert path.read_text() == "first, and last"


def write_half(path: Path, fault: type[BaseException]) -> None:
    with drafted(path) as draft:
        draft.write_bytes(b"half")
        raise fault


def fill_half(path: Path, fault: type[BaseException]) -> None:
    with new_folder([path / "a" / "b"]) as new, new.filled() as draft:
        (draft / "file").write_bytes(b"half")
        raise fault


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("write", [write_half, fill_half])
def test_other_faults_pass_and_leave_nothing(
    tmp_path: Path, write: Callable[[Path, type[BaseException]], None], fault: type[BaseException]
) -> None:
    with pytest.raises(fault):
        write(tmp_path / "new", fault)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_comes_whole_and_only_where_it_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with new_folder([path]):
        pass
    assert list(tmp_path.iterdir()) == []
    with new_folder([path]) as new, new.filled() as draft:
        (draft / "file").write_text("half")
        assert not path.exists()
    assert [one.name for one in path.iterdir()] == ["file"]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("there", ["folder", "empty folder", "file", "link"])
def test_nothing_is_written_over(tmp_path: Path, there: str) -> None:
    path = tmp_path / "there"
    if there == "file":
        path.write_text("x")
    elif there == "link":
        path.symlink_to(tmp_path)
    else:
        path.mkdir()
        if there == "folder":
            (path / "chapter.tex").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    for refuse in (check_new_folder, fill):
        with pytest.raises(ValueError, match="there is there already, and nothing is written over"):
            refuse(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_places_that_cannot_hold_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"file is a file, so .*file/a/b cannot be made; --out"):
        check_new_folder(tmp_path / "file" / "a" / "b")
    (tmp_path / "link").symlink_to("nowhere")
    for place in ("link", "link/a"):
        with pytest.raises(ValueError, match="link is a link to nowhere, which does not exist"):
            check_new_folder(tmp_path / place)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    for check in (check_new_folder, check_writable):
        with pytest.raises(ValueError, match=f"{tmp_path} may not be written; choose another"):
            check(tmp_path / "a" / "b")


def test_who_is_second_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with new_folder([path]) as new:
        with pytest.raises(ValueError, match="a is being written by another process: give another"):
            check_new_folder(path)
        assert fill(path, "other", tmp_path / "a-2") == tmp_path / "a-2"
        with new.filled():
            pass
    assert path.is_dir()


@pytest.mark.parametrize("there", ["folder", "file"])
def test_who_is_late_is_told_at_the_end_or_takes_the_next_name(tmp_path: Path, there: str) -> None:
    path = tmp_path / "a"
    with new_folder([path]) as late, new_folder([tmp_path / "b", tmp_path / "c"]) as other:
        for taken in (path, tmp_path / "b"):
            if there == "file":
                taken.write_text("theirs")
            else:
                taken.mkdir()
                (taken / "theirs").write_text("theirs")
        with (
            pytest.raises(ValueError, match=r"a was written by another process meanwhile"),
            late.filled() as draft,
        ):
            (draft / "ours").write_text("ours")
        with other.filled() as draft:
            (draft / "ours").write_text("ours")
    assert other.path == tmp_path / "c"
    found = sorted(one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*"))
    theirs = ["a", "a/theirs", "b", "b/theirs"] if there == "folder" else ["a", "b"]
    assert found == [*theirs, "c", "c/ours"]


def test_the_latest_is_named(tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    with new_folder([tmp_path / "a"], latest):
        pass
    assert not latest.exists(), "it was not filled"
    for name in ("a", "b"):
        with new_folder([tmp_path / name], latest) as new, new.filled():
            pass
        assert latest.read_text() == f"{name}\n"


@needs_locks
def test_what_a_killed_process_left_goes_with_the_next_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = tmp_path / process.stdout.readline().strip()
        fill(tmp_path / "b")
        assert left.exists(), "its process lives"
        with pytest.raises(ValueError, match="is being written by another process"):
            check_new_folder(tmp_path / "a")
        process.send_signal(signal.SIGKILL)
    assert left.exists(), "nobody could remove it"
    fill(tmp_path / "a")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]


def left_in(folder: Path) -> Path:
    """A draft folder as a killed process leaves it."""
    own = OwnFolder(folder)
    left = own.path.with_name(own.path.name[:-8] + "abc_1234")
    own.remove()
    left.mkdir()
    (left / "half").write_bytes(b"x")
    return left


def link_in_place(folder: Path) -> None:
    real = folder.with_name("elsewhere")
    folder.rename(real)
    folder.symlink_to(real)


@needs_locks
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: folder.rename(folder.with_name(folder.name[:-8] + "of-mine")),
        lambda folder: folder.rename(folder.with_name(".kvsim-draft-elsewhere-abc_1234")),
        link_in_place,
    ],
)
def test_what_may_not_be_ours_stays(tmp_path: Path, change: Callable[[Path], object]) -> None:
    change(left_in(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    OwnFolder(tmp_path).remove()
    assert sorted(tmp_path.rglob("*")) == before


@needs_locks
def test_a_folder_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_in(tmp_path)
    monkeypatch.setattr("os.getuid", lambda: left.stat().st_uid + 1)
    OwnFolder(tmp_path).remove()
    assert left.exists()
    monkeypatch.undo()
    OwnFolder(tmp_path).remove()
    assert not left.exists()


@needs_locks
def test_a_disk_without_locks_keeps_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = left_in(tmp_path)
    monkeypatch.setattr(fcntl, "flock", none)
    with new_folder([tmp_path / "a"]), new_folder([tmp_path / "a"]) as new, new.filled():
        pass
    assert sorted(tmp_path.iterdir()) == [left, tmp_path / "a"]


@needs_locks
def test_a_folder_that_another_process_took_for_one_left_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its lock is taken, a new folder looks like one of a killed process."""
    make, made = tempfile.mkdtemp, list[str]()

    def taken(prefix: str, dir: Path) -> str:  # noqa: A002 - as mkdtemp names it
        made.append(make(prefix=prefix, dir=dir))
        if len(made) == 1:
            monkeypatch.setattr(files, "mkdtemp", make)
            OwnFolder(tmp_path).remove()
            monkeypatch.setattr(files, "mkdtemp", taken)
        return made[-1]

    monkeypatch.setattr(files, "mkdtemp", taken)
    own = OwnFolder(tmp_path)
    assert [str(own.path)] == made[1:]
    assert list(tmp_path.iterdir()) == [own.path]
    own.remove()
