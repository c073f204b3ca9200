"""``kvsim simulate --perfetto``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path

FEW = ("simulate", str(bundled_path("chat-2k")), "--limit", "60")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_and_the_line_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--perfetto", "t.json", "--perfetto-requests", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("timeline                t.json: 9 of 60 requests, evenly over")
    assert max(map(len, lines)) <= 80
    assert len(json.loads(Path("t.json").read_text())["traceEvents"]) > 9
    summary = json.loads(Path("kvsim-run/summary.json").read_text())
    assert summary["engine"]["name"] == "leaper"  # drawing costs no step-by-step run


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--perfetto", "kvsim-run/t.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "kvsim.summary/1"
    assert Path("kvsim-run/t.json").exists()
    assert main([*FEW]) == 0  # a folder with a timeline in it is a run's still


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--perfetto", "."), "--perfetto . is a folder; name a file"),
        (("--perfetto", "no/t.json"), "the folder no does not exist; make it"),
        (("--perfetto", "kvsim-run/summary.json"), "is a part of the run folder"),
        (("--perfetto-requests", "9"), "--perfetto-requests needs --perfetto FILE"),
        (
            ("--perfetto", "t.json", "--perfetto-requests", "-1"),
            "--perfetto-requests is -1; it must be 0 to 10,000",
        ),
    ],
)
def test_bad_options(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FEW, *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "rows" not in printed.err  # refused before the trace is read
    assert not Path("kvsim-run").exists()


def test_the_trace_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--perfetto", FEW[1]]) == 2
    assert "is the trace itself" in capsys.readouterr().err
