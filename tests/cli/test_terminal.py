"""What a terminal of 80 columns shows: colour, widths, the panel; and what a pipe gets instead."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

pty = pytest.importorskip("pty", reason="needs a POSIX terminal")
termios = pytest.importorskip("termios")

TRACE = str(bundled_path("chat-2k"))
FEW = ("simulate", TRACE, "--limit", "60")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
PLAIN = {"NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES"}


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in PLAIN:
        monkeypatch.delenv(name, raising=False)


def started(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """A command whose standard output is a terminal of 80 by 24; and our end of that."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kvsim.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **variables},
    )
    os.close(theirs)
    return process, ours


def received(ours: int, upto: str | None = None) -> str:
    """What comes from a terminal, up to a text or to its end."""
    parts: list[bytes] = []
    while upto is None or upto not in b"".join(parts).decode(errors="replace"):
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode().replace("\r\n", "\n")


def on_terminal(*arguments: str, **variables: str) -> str:
    process, ours = started(arguments, variables)
    text = received(ours)
    os.close(ours)
    assert process.wait() == 0
    return text


def in_process(*arguments: str) -> tuple[int, str]:
    """Exit code and text of a command on a terminal, without the seconds of a new process."""
    ours, theirs = pty.openpty()
    with (
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor(1) as reader,
        os.fdopen(ours, "rb", buffering=0),
        os.fdopen(theirs, "w", encoding="utf-8") as terminal,
    ):
        text = reader.submit(received, ours)
        patch.setattr(sys, "stdout", terminal)
        code = main(list(arguments))
        terminal.close()
        return code, text.result()


def piped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


COMMANDS = {
    "simulate": (*FEW, "--slo", "ttft=2s,tpot=50ms", "--out", "run"),
    "compare": ("compare", TRACE, "--limit", "60", "--allocators", "orca-max,paged", "--jobs", "1"),
    "plan": ("plan",),
    "list": ("list",),
    "trace info": ("trace", "info", TRACE),
    "explain": ("explain",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_gets_colour_and_a_pipe_the_same_text_without(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "explain":
        piped(capsys, *FEW)
    text = piped(capsys, *COMMANDS[command])
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    shutil.rmtree("run", ignore_errors=True)
    monkeypatch.setenv("TERM", "xterm-256color")
    code, shown = in_process(*COMMANDS[command])
    assert code == 0
    assert "\x1b[" in shown
    assert ESCAPES.sub("", shown) == text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_declined(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" in in_process("plan")[1]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, text = in_process("plan")
    assert code == 0
    assert "\x1b" not in text


def test_colour_can_be_had_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1mKV pool\x1b[0m" in piped(capsys, *FEW)
    monkeypatch.setenv("NO_COLOR", "1")  # the stronger wish
    assert "\x1b" not in piped(capsys, *FEW)


def test_json_is_never_painted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in piped(capsys, *FEW, "--json")


@pytest.mark.slow
def test_the_panel_is_drawn_wiped_and_followed_by_the_table() -> None:
    shown = on_terminal(*FEW, "--watch", "--watch-speed", "20")  # 4 s for 3 frames of 0.1 s
    assert shown.startswith(HIDE)
    panel, _, table = shown.rpartition(SHOW)
    panel = ESCAPES.sub("", panel)
    assert len(re.findall(r"clock +[\d.]+ s \(20 times real time\)", panel)) >= 3
    for word in ("running", "KV pool", "token", "cached", "of prompt tokens hit", "output/s"):
        assert word in panel
    for line in panel.splitlines():
        assert len(line) <= 79, "a full line would wrap"
    assert "verdict" in table
    assert "clock" not in table


def test_ctrl_c_gives_the_cursor_back() -> None:
    process, ours = started((*FEW, "--watch", "--watch-speed", "0.01"), {})
    received(ours, "KV in use")
    before_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest = received(ours)
    os.close(ours)
    assert process.wait() == 130
    assert SHOW in rest
    assert "PARTIAL" in rest
    assert time.monotonic() - before_s < PATIENCE_S, "it does not wait for the slow clock"


@pytest.mark.parametrize("columns", [40, 20, 9])
def test_the_panel_fits_a_small_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "12"}.items():
        monkeypatch.setenv(name, value)
    code, shown = in_process(*FEW, "--watch", "--watch-speed", "max")
    assert code == 0
    assert SHOW in shown
    for line in ESCAPES.sub("", shown.rpartition(SHOW)[0]).splitlines():
        assert len(line) < columns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--watch",), "--watch needs a terminal, and standard output is none"),
        (("--watch", "--json"), "leave one out"),
        (("--watch-speed", "3"), "--watch-speed needs --watch"),
    ],
)
def test_where_nothing_can_be_watched(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FEW, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
def test_bad_speeds(speed: str) -> None:
    code, text = in_process(*FEW, "--watch", f"--watch-speed={speed}")
    assert (code, text) == (2, "")
