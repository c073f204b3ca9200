"""The local page reads traces below its root only, and hands out files of runs only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvsim.cli.ui.folders import MOST_TRACES, Places

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "a.jsonl.gz").write_text("")
    (root / "deep" / "b.csv").write_text("")
    (tmp_path / "secret.csv").write_text("secret")
    return Places(root, tmp_path / "out")


def test_traces_are_offered_by_their_names_below_the_root(places: Places) -> None:
    (places.root / "notes.md").write_text("")
    (places.root / ".hidden.csv").write_text("")
    (places.root / ".git").mkdir()
    (places.root / ".git" / "c.csv").write_text("")
    assert places.trace_names() == ["a.jsonl.gz", "deep/b.csv"]
    assert places.trace("deep/b.csv") == places.root / "deep" / "b.csv"


def test_names_that_no_page_can_show_are_left_out(places: Places) -> None:
    try:
        (places.root / "\udcff.csv").write_text("")
    except OSError:
        pytest.skip("file names are text here")
    assert places.trace_names() == ["a.jsonl.gz", "deep/b.csv"]


def test_a_large_folder_is_cut(places: Places) -> None:
    for number in range(MOST_TRACES + 5):
        (places.root / f"{number}.csv").write_text("")
    assert len(places.trace_names()) == MOST_TRACES


@pytest.mark.parametrize(
    "name", ["../secret.csv", "deep/../../secret.csv", "/etc/passwd", "deep\0/b.csv"]
)
def test_no_name_leads_out_of_the_root(places: Places, name: str) -> None:
    with pytest.raises(ValueError, match="opens traces there only"):
        places.trace(name)


@pytest.mark.parametrize("name", ["deep", "", "absent.csv"])
def test_what_is_no_file_is_refused(places: Places, name: str) -> None:
    with pytest.raises(ValueError, match="is no file below"):
        places.trace(name)


def test_no_link_leads_out_of_the_root(places: Places, tmp_path: Path) -> None:
    (places.root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (places.root / "loop.csv").symlink_to(places.root / "loop.csv")
    (places.root / "away").symlink_to(tmp_path, target_is_directory=True)
    assert places.trace_names() == ["a.jsonl.gz", "deep/b.csv"]
    for name in ("link.csv", "away/secret.csv"):
        with pytest.raises(ValueError, match="opens traces there only"):
            places.trace(name)


def test_runs_get_folders_of_their_own(places: Places) -> None:
    with places.next_run() as first, places.next_run() as second, first.filled(), second.filled():
        pass
    with places.next_run() as third:
        assert third.path == places.out / "comparison-3"
    assert sorted(path.name for path in places.out.iterdir()) == ["comparison-1", "comparison-2"]


def test_files_of_runs_are_handed_out_and_nothing_else(places: Places, tmp_path: Path) -> None:
    with places.next_run() as new, new.filled():
        run = new.path
    (run / "report.html").write_text("page")
    (run / "other.html").write_text("other")
    (places.out / "report.html").write_text("outside")
    (run / "comparison.json").symlink_to(tmp_path / "secret.csv")
    (run / "block-map.html").symlink_to(run / "block-map.html")
    assert places.file_of("comparison-1", "report.html") == run / "report.html"
    for name, file in (
        ("comparison-1", "other.html"),
        ("comparison-1", "../report.html"),
        ("comparison-1", "comparison.json"),
        ("comparison-1", "block-map.html"),
        ("comparison-2", "report.html"),
        ("..", "report.html"),
        ("comparison-1/..", "report.html"),
        ("comparison-01", "report.html"),
    ):
        assert places.file_of(name, file) is None, (name, file)


def test_the_script_is_told_by_the_environment(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KVSIM_UI_ROOT", "KVSIM_UI_OUT"):
        monkeypatch.setenv(name, "")
    places.to_environment()
    assert Places.of_environment() == places
