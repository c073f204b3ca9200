"""Files are written under another name and renamed: that must not take the place of a device."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.sim.folders.place import drafted
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_stays_a_pipe(pipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = pipe.parent / "run"
    command = ["simulate", str(bundled_path("chat-2k")), "--limit", "3", "--out", str(run)]
    assert main([*command, "--perfetto", str(pipe)]) == 2
    assert "is no regular file: name one" in capsys.readouterr().err
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not run.exists(), "told before the simulation"


def test_no_draft_takes_the_place_of_a_pipe(pipe: Path) -> None:
    with pytest.raises(OSError, match="is no regular file"), drafted(pipe):
        pass
    assert [one.name for one in pipe.parent.iterdir()] == ["pipe"]
