"""Runs are there whole, or not at all: for processes that race, and for those that are killed.

Most of it is told to one process that has a run in hand and saves it in processes forked from it,
as often as we like: starting Python for each would take minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="saves in forked processes")
TRACE: Final = str(bundled_path("chat-2k"))
FILES: Final = ["manifest.json", "report.html", "requests.parquet", "series.parquet"]
FILES.append("summary.json")
SAVER: Final = """
import os, sys
from kvsim.sim import simulate
from kvsim.sim.run import folder as run_folder
from kvsim.traces import read_trace

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "shutil.rmtree"}

def save(seed, path, last_event):
    left = last_event

    def count(event, _arguments):
        nonlocal left
        if left and event in EVENTS:
            left -= 1
            if not left:
                os.kill(os.getpid(), 9)

    sys.addaudithook(count)
    try:
        runs[seed].save(path or None)
    except ValueError as error:
        assert "another process" in str(error) or "there already" in str(error), error
        os._exit(2)
    os._exit(0)

trace = read_trace(sys.argv[1], limit=5)
runs = [simulate(trace, seed=seed) for seed in (0, 1)]
# the true page takes 0.2 s
run_folder.run_page = lambda run: [f"page of {run.options.seed}"] * 100_000
for seed in (0, 1):
    runs[seed].save(f"wanted-{seed}")
while True:
    print("", flush=True)
    words = input().split(",")
    pids = []
    for seed, path, last_event in zip(words[::3], words[1::3], words[2::3], strict=True):
        if not (pid := os.fork()):
            save(int(seed), path, int(last_event))
        pids.append(pid)
    print(*pids, flush=True)
    input()
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)
"""


@dataclass
class Saver:
    """A process that saves one of two runs, ``wanted-0`` and ``wanted-1``, in ``folder``."""

    folder: Path
    asked: IO[str]
    told: IO[str]

    def start(self, *saves: tuple[int, str, int]) -> list[int]:
        """Save runs side by side: number, name, and the file event that kills (0: none)."""
        self.told.readline()
        self._ask(",".join(f"{seed},{name},{event}" for seed, name, event in saves))
        return [int(word) for word in self.told.readline().split()]

    def exit_codes(self) -> list[int]:
        self._ask("")
        return [int(word) for word in self.told.readline().split()]

    def _ask(self, line: str) -> None:
        self.asked.write(f"{line}\n")
        self.asked.flush()

    def holds(self, path: Path, seed: int) -> bool:
        """Whether a folder holds this run whole, and nothing else."""
        wanted = self.folder / f"wanted-{seed}"
        return sorted(file.name for file in path.iterdir()) == FILES and all(
            (path / name).read_bytes() == (wanted / name).read_bytes() for name in FILES
        )

    def drafts(self) -> list[Path]:
        return list(self.folder.glob(".*"))


@pytest.fixture
def saver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    monkeypatch.chdir(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", SAVER, TRACE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Saver(tmp_path, process.stdin, process.stdout)
        process.kill()


@pytest.mark.slow
def test_one_of_two_that_save_into_one_folder_has_it(saver: Saver) -> None:
    for number in range(50):
        saver.start((0, f"run-{number}", 0), (1, f"run-{number}", 0))
        codes = saver.exit_codes()
        assert sorted(codes) == [0, 2], number
        assert saver.holds(saver.folder / f"run-{number}", codes.index(0)), number
    assert saver.drafts() == []


@pytest.mark.slow
def test_two_that_save_without_a_name_have_a_folder_each(saver: Saver) -> None:
    for number in range(1, 51):
        saver.start((0, "", 0), (1, "", 0))
        assert saver.exit_codes() == [0, 0], number
    runs = saver.folder / "kvsim-runs"
    found = [path for path in runs.iterdir() if path.name != "latest"]
    assert [sum(saver.holds(path, seed) for path in found) for seed in (0, 1)] == [50, 50]
    assert (runs / (runs / "latest").read_text("utf-8").strip()) in found


@pytest.mark.slow
def test_a_run_killed_at_any_moment_is_there_whole_or_not_at_all(saver: Saver) -> None:
    moments = random.Random(13)
    saver.start((0, "timed", 0))
    begin_s = time.monotonic()
    assert saver.exit_codes() == [0]
    usual_s = time.monotonic() - begin_s
    killed = left = 0
    for number in range(100):
        (pid,) = saver.start((number % 2, f"run-{number}", 0))
        time.sleep(moments.uniform(0, 1.2) * usual_s)
        os.kill(pid, signal.SIGKILL)  # a process that has ended has nobody's number before it is
        (code,) = saver.exit_codes()  # waited for
        path = saver.folder / f"run-{number}"
        assert code in (0, -signal.SIGKILL)
        assert path.exists() or code, number
        assert not path.exists() or saver.holds(path, number % 2), number
        killed += code != 0
        left += bool(saver.drafts())
    assert killed > 20
    assert left > 20, "most are killed while they write"
    saver.start((0, "last", 0))
    assert saver.exit_codes() == [0]
    assert saver.drafts() == [], "what killed processes left is gone"


def test_a_run_killed_at_each_file_event_is_there_whole_or_not_at_all(saver: Saver) -> None:
    code, event, came = -9, 0, []
    while code:
        event += 1
        saver.start((0, f"run-{event}", event))
        (code,) = saver.exit_codes()
        path = saver.folder / f"run-{event}"
        assert not path.exists() or saver.holds(path, 0), event
        came.append(path.exists())
    assert came == sorted(came), "from one event on it is there"
    assert 10 < came.index(True) < event, "killed before it came, and after"


def race(folder: Path, *options: str) -> list[tuple[int, str]]:
    """Exit codes and last words of two processes of the command, of 20 and of 30 requests."""
    command = [sys.executable, "-m", "kvsim.cli", "simulate", TRACE, *options]
    processes = [
        subprocess.Popen(
            [*command, f"--limit={limit}"], cwd=folder, stderr=subprocess.PIPE, text=True, stdout=-3
        )
        for limit in (20, 30)
    ]
    told = [process.communicate()[1].splitlines()[-1] for process in processes]
    return [(process.returncode, words) for process, words in zip(processes, told, strict=True)]


@pytest.mark.parametrize("rounds", [1, pytest.param(25, marks=pytest.mark.slow)])
def test_two_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rounds: int
) -> None:
    """Two pairs a round: one into the same folder, one into folders by default."""
    monkeypatch.chdir(tmp_path)
    for number in range(rounds):
        ends = sorted(race(tmp_path, f"--out=run-{number}"))
        assert [code for code, _ in ends] == [0, 2]
        why = ends[1][1]  # the other one may have ended before this one looked
        assert "another process" in why or "is there already" in why
        assert sorted(path.name for path in (tmp_path / f"run-{number}").iterdir()) == FILES
        assert main(["explain", f"run-{number}"]) == 0
        assert [code for code, _ in race(tmp_path)] == [0, 0]
        assert len(list((tmp_path / "kvsim-runs").iterdir())) == 2 * (number + 1) + 1
        capsys.readouterr()
        assert main(["report"]) == 0
        assert (tmp_path / capsys.readouterr().out.strip()).is_file()


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """No file may be larger than the page is: what is written before it is there, then nothing."""
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (99_999, 99_999)); "
    limited += "from kvsim.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", limited, "simulate", TRACE, "--limit=5", "--out=a/b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    told = done.stderr.splitlines()[-1]
    assert told == "kvsim: a/b cannot be written: File too large"
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_the_latest_run_is_no_place_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = ["--limit=5", "--out", "kvsim-runs/latest"]
    assert main(["simulate", TRACE, *taken]) == 2
    assert "names the latest run" in capsys.readouterr().err
    assert main(["compare", TRACE, "--allocators=paged,prefix", *taken]) == 2
    assert "names the latest run" in capsys.readouterr().err
    (tmp_path / "kvsim-runs" / "latest").mkdir(parents=True)
    assert main(["simulate", TRACE, "--limit=5"]) == 2
    assert "must be the file that names the latest run" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "kvsim-runs").iterdir()] == ["latest"]


def test_a_manifest_that_no_reader_takes_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("[" * 3000 + "]" * 3000, "9" * 5000):
        (tmp_path / "manifest.json").write_text(text)
        assert main(["explain", str(tmp_path)]) == 2
        assert "manifest.json is not the manifest of a run" in capsys.readouterr().err
