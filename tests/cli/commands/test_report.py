"""``kvsim report``, and ``--record blocks`` of the commands whose folders it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.sim.block_map import BlockMap
from kvsim.sim.folders.place import latest_result
from kvsim.traces import bundled_path

TRACE = str(bundled_path("chat-2k"))
TIGHT = (TRACE, "--limit", "20", "--rate-scale", "30", "--kv-memory", "512MiB")
SHORT = ("--max-model-len", "2048")
RECORD = ("--record", "blocks")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def simulate(*options: str) -> int:
    return main(["simulate", *TIGHT, *SHORT, *options])


def compare(*options: str) -> int:
    allocators = ("--allocators", "orca-max,paged,prefix")
    return main(["compare", *TIGHT, *SHORT, *allocators, "--jobs", "1", *options])


def names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that refuses a command."""
    capsys.readouterr()
    assert main([*arguments]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("kvsim: ")
    return line.removeprefix("kvsim: ")


def test_a_run_as_page_picture_and_animation(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(*RECORD, "--out", "run") == 0
    assert "blocks.parquet" in names("run")
    capsys.readouterr()
    pictures = ("--png", "a.png", "--svg", "a.svg", "--gif", "a.gif", "--at", "1s")
    assert main(["report", "run", "--block-map", *pictures]) == 0
    out = capsys.readouterr().out.split()
    assert [Path(name).as_posix() for name in out] == [
        "run/block-map.html",
        "a.png",
        "a.svg",
        "a.gif",
    ]
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.gif").read_bytes().startswith(b"GIF89a")
    assert "t = 1 s" in Path("a.svg").read_text("utf-8")
    assert main(["report", "run", "--gif", "b.png", "--colour", "request"]) == 0
    assert b"acTL" in Path("b.png").read_bytes(), "an animated PNG"


def test_rows_of_a_comparison_and_several_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*RECORD, "--out", "cmp") == 0
    assert simulate(*RECORD, "--out", "run") == 0
    blocks = {f"blocks-{number}.parquet" for number in (1, 2, 3)}
    assert names("cmp") == {"comparison.json", "report.html"} | blocks
    row = BlockMap.load(Path("cmp/blocks-3.parquet"))
    assert row.facts.name == "prefix"
    run = BlockMap.load(Path("run/blocks.parquet"))
    assert run.slots.shape[1:] == row.slots.shape[1:]
    assert main(["report", "cmp", "run", "--svg", "all.svg", "--block-map"]) == 0
    text = Path("all.svg").read_text("utf-8")
    for name in ("cmp: orca-max", "cmp: paged", "cmp: prefix", ">run<"):
        assert name in text
    capsys.readouterr()


@pytest.mark.slow
def test_processes_record_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*RECORD, "--out", "here") == 0
    assert compare(*RECORD, "--out", "there", "--jobs", "2") == 0
    for number in (1, 2, 3):
        name = f"blocks-{number}.parquet"
        assert Path("here", name).read_bytes() == Path("there", name).read_bytes()
    capsys.readouterr()


def test_recording_changes_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--step", "--out", "plain") == 0
    assert simulate("--step", *RECORD, "--out", "recorded") == 0
    for name in ("requests.parquet", "series.parquet", "manifest.json"):
        assert Path("plain", name).read_bytes() == Path("recorded", name).read_bytes()
    capsys.readouterr()


def test_without_options_it_says_where_reports_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--out", "run") == 0
    capsys.readouterr()
    assert main(["report", "run", "run"]) == 0
    assert [Path(line).as_posix() for line in capsys.readouterr().out.splitlines()] == [
        "run/report.html"
    ] * 2
    Path("run/report.html").unlink()
    assert "run has no report.html: somebody removed it" in sentence(capsys, "report", "run")


def test_without_a_name_it_is_the_latest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no kvsim-runs/latest" in sentence(capsys, "report")
    assert simulate(*RECORD) == 0
    assert simulate("--out", "run") == 0, "it has a name, and is not the latest"
    capsys.readouterr()
    assert main(["report", "--block-map"]) == 0
    assert Path(capsys.readouterr().out.strip()) == latest_result() / "block-map.html"


def test_folders_that_cannot_be_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other").mkdir()
    assert "other is not a run or comparison of kvsim" in sentence(capsys, "report", "other")
    assert "nowhere is not a run" in sentence(capsys, "report", "nowhere", "--block-map")
    assert simulate("--out", "run") == 0
    wanted = "run has no block map: run it again with --record blocks"
    assert sentence(capsys, "report", "run", "--block-map") == wanted
    Path("run/blocks.parquet").write_text("no parquet")
    assert "is not a block map" in sentence(capsys, "report", "run", "--block-map")
    assert "block-map.html" not in names("run")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--png", "a.jpg"), "--png 'a.jpg' must end with .png"),
        (("--gif", "a.svg"), "--gif 'a.svg' must end with .gif or .png"),
        (("--svg", "no/a.svg"), "there is no folder no"),
        (("--svg", "a.svg", "--at", "5"), "--at '5' has no unit"),
        (("--block-map", "--at", "5s"), "--at is the moment of a picture"),
    ],
)
def test_options_that_cannot_be(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert words in sentence(capsys, "report", "run", *options)


def test_recordings_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    run, both = ("simulate", *TIGHT, "--out", "run"), ("compare", *TIGHT, "--vary", "a.b=1")
    window = ("--record-window", "1s..2s")
    assert "give --record blocks, too" in sentence(capsys, *run, *window)
    assert "allowed is FROM..TO" in sentence(capsys, *run, *RECORD, "--record-window", "1s")
    assert "give --out DIR" in sentence(capsys, *both, *RECORD)
    assert not Path("run").exists()


def test_a_failed_comparison_leaves_no_map(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("kvsim.sim.comparison.runs.row_of", broken)
    arguments = ("compare", *TIGHT, *SHORT, "--allocators", "paged,prefix", "--jobs", "1")
    assert sentence(capsys, *arguments, *RECORD, "--out", "cmp") == "broken"
    assert not Path("cmp").exists()
