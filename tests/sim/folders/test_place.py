"""Files that are written whole or not at all, and places that cannot be written."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.comparison.file import write_comparison
from kvsim.sim.folders.place import check_writable, drafted
from kvsim.sim.report.page_file import write_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def full_disk() -> Iterator[str]:
    yield "half a page"
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_page_and_is_told_with_its_name(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old", "utf-8")
    with pytest.raises(OSError, match=r"page\.html cannot be written: No space left") as caught:
        write_page(full_disk(), page)
    assert caught.value.errno == errno.ENOSPC
    assert page.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_nothing_is_there_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with drafted(path) as draft:
        draft.write_bytes(b"half")
        assert not path.exists()
        draft.write_bytes(b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def write_half(path: Path, fault: type[BaseException]) -> None:
    with drafted(path) as draft:
        draft.write_bytes(b"half")
        raise fault


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_other_faults_pass_and_leave_nothing(tmp_path: Path, fault: type[BaseException]) -> None:
    with pytest.raises(fault):
        write_half(tmp_path / "a.png", fault)
    assert list(tmp_path.iterdir()) == []


def test_drafts_of_a_killed_comparison_with_more_rows_go(tmp_path: Path) -> None:
    for name in (".blocks-7.parquet.part", ".comparison.json.part"):
        (tmp_path / name).write_bytes(b"half")
    write_comparison({"schema": "x"}, ["page"], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["comparison.json", "report.html"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match="may not be written; choose another folder for --out"):
        check_writable(tmp_path / "new" / "er")
