"""The command line as a whole: light imports, exit codes, one sentence for an error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from kvsim.cli import main as command_line
from kvsim.cli.commands import simulate
from kvsim.cli.main import build_parser, main

HEAVY = ("pandas", "scipy", "plotly", "torch", "pyarrow", "numpy", "simpy", "tqdm", "shtab")


@pytest.mark.parametrize(
    "code",
    [
        "import kvsim.cli.main",
        "import kvsim.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass",
        "import kvsim.cli.main as m\ntry: m.main(['simulate', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_nothing_heavy_is_imported_for_help(code: str) -> None:
    check = f"import sys\n{code}\nprint([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", check], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def test_importing_the_python_door_is_light() -> None:
    check = (
        "import sys\nfrom kvsim.sim import simulate, Scenario\n"
        "print([m for m in ('pandas', 'scipy', 'plotly', 'torch', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", check], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_command_is_in_the_help() -> None:
    text = build_parser().format_help()
    for module in command_line.COMMANDS:
        assert module.__name__.rpartition(".")[2] in text


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "replay a trace and show memory, throughput and latency" in told.err


@pytest.mark.parametrize("command", [[], ["simulate"], ["plan"], ["validate", "schedule"]])
def test_the_help_fits_80_columns(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ValueError("a.b = 3: expected x"), 2, "kvsim: a.b = 3: expected x\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "kvsim: x.csv: No such"),
        (OSError("disk full"), 2, "kvsim: disk full\n"),
        (KeyboardInterrupt(), 130, "kvsim: stopped\n"),
        (
            MemoryError(),
            2,
            "kvsim: memory ran out: take fewer requests (--limit), or smaller numbers\n",
        ),
    ],
)
def test_user_errors_are_one_sentence(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_arguments: object) -> int:
        raise error

    monkeypatch.setattr(simulate, "run", fail)
    assert main(["simulate", "x.csv"]) == code
    printed = capsys.readouterr()
    assert printed.err.startswith(text)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_our_own_faults_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_arguments: object) -> int:
        raise AssertionError("blocks do not add up")

    monkeypatch.setattr(simulate, "run", fail)
    with pytest.raises(AssertionError, match="do not add up"):
        main(["simulate", "x.csv"])


def test_a_reader_that_stops_reading_is_no_error() -> None:
    code = "import sys; from kvsim.cli.main import main; sys.exit(main(['completion', 'bash']))"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_know_the_commands(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "--rate-scale" in script
    assert re.search(r"_kvsim_presets\(\) \{ .*vllm-0\.12 .*vllm-0\.32-sync", script)
    assert re.search(r"_kvsim_hardware\(\) \{ .*h100-sxm", script)
    assert script.count("_kvsim_models") >= 2, "defined and used"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out + "\n_kvsim_presets vllm-0.1\n"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert done.stdout == "vllm-0.12\n"


@pytest.mark.parametrize(
    ("command", "near"),
    [(["simulat"], "simulate"), (["trace", "sinth"], "synth"), (["completion", "zhs"], "zsh")],
)
def test_a_misspelt_command_names_the_nearest(
    command: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(command)
    assert f"did you mean '{near}'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["report", "run", "--block-mapp"],
            "kvsim report: --block-mapp is unknown .did you mean --b",
        ),
        (
            ["trace", "info", "a", "--limt=3"],
            "kvsim trace info: --limt is unknown .did you mean --l",
        ),
        (
            ["calibrate", "fit", "a", "--format=vidur", "--model=m", "x", "--zzz"],
            "fit: 'x' is one argument too many; see",
        ),
        (["list", "policies", "more"], "kvsim list: 'more' is one argument too many; see"),
    ],
)
def test_an_unknown_option_is_told_by_its_command(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert re.search(said, capsys.readouterr().err.strip().splitlines()[-1])


def test_a_closed_stderr_stays_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert main(["simulate", "no-such-file"]) == 2
    sys.stderr.close()
    assert capsys.readouterr().out == ""
