"""``kvsim compare`` where something is wrong or odd: one sentence, or a plain answer."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path
from tests.patience import PATIENCE_S
from tests.processes import listed, wait_for_the_end_of

TRACE = str(bundled_path("chat-2k"))
FEW = (TRACE, "--limit", "20", "--kv-memory", "2GiB", "--max-model-len", "4096", "--jobs", "1")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def numbers(first: int, last: int) -> str:
    return ",".join(map(str, range(first, last + 1)))


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        (["=1"], "'=1' is not of the form table.key=a,b,c"),
        (["engine.=1"], "key engine."),
        ([".x=1"], "table '' is unknown; choices: model"),
        (["engine.max_num_seqs=8,a\nb"], "is not of the form table.key=a,b,c"),
        (["engine.max_num_seqs=8,08"], "engine.max_num_seqs = '08': expected a whole number"),
        (["engine.max_num_seqs=8", "engine.max_num_seqs=9"], "names a key or a value twice"),
        (["queue.policy=fcfs,lifo"], "queue.policy = 'lifo'"),
        (["model.name=llama-3.1-8b,nonsense"], "model.name=nonsense: model 'nonsense' is neither"),
        (["cost.source=auto,nonsense"], "cost.source=nonsense: cost source 'nonsense'"),
        (
            [f"engine.max_num_seqs={numbers(1, 300)}", f"engine.block_size={numbers(1, 300)}"],
            "--vary makes 90,000 combinations; at most 1,000 are run at once",
        ),
    ],
)
def test_varied_keys_that_cannot_be(
    vary: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [part for text in vary for part in ("--vary", text)]
    assert main(["compare", *FEW, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kv-dtype", "fp8"), "--preset levers changes engine.kv_cache_dtype itself"),
        (("--set", "model.num_kv_heads=4"), "--preset levers changes model.num_kv_heads itself"),
        (("--max-model-len", "999999"), "MHA, 32 heads: allocator.reservation = 'max' takes"),
    ],
)
def test_levers_that_cannot_be(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", TRACE, "--limit", "5", "--preset", "levers", *options]) == 2
    assert message in capsys.readouterr().err


def test_one_bad_scenario_among_good_ones_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--vary", "engine.block_size=16,17,32")
    assert main(["compare", *FEW, "--allocators", "prefix", *sizes]) == 2
    captured = capsys.readouterr()
    assert "prefix, engine.block_size=17: block_size=17 does not fit" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("file", "there/file is there already, and nothing is written over it: give a new"),
        ("file/deep", "there/file is a file, so there/file/deep cannot be made"),
        ("report", "there/report is there already, and nothing is written over it: give a new"),
        ("link", "there/link is a link to nowhere"),
    ],
)
def test_places_that_are_no_folder_for_it(
    there: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "there"
    (place / "report").mkdir(parents=True)
    (place / "report" / "report.html").write_text("{}", encoding="utf-8")
    (place / "file").write_text("mine", encoding="utf-8")
    (place / "link").symlink_to("nowhere")
    assert main(["compare", *FEW, "--allocators", "paged", "--out", f"there/{there}"]) == 2
    assert message in capsys.readouterr().err
    assert (place / "file").read_text("utf-8") == "mine"
    assert (place / "report" / "report.html").read_text("utf-8") == "{}"


def test_a_place_that_fills_up_is_told_and_left_empty(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Path, *_rest: object, **_named: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert main(["compare", *FEW, "--allocators", "paged", "--out", "x"]) == 2
    monkeypatch.undo()
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "kvsim: x cannot be written: No space left on device"
    assert list(tmp_path.iterdir()) == []


def write_trace(path: Path, rows: list[tuple[int, int, int]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("arrival_ns", "prompt_tokens", "output_tokens"))
        writer.writerows(rows)
    return str(path)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 1, 1)],
        [(0, 100, 5)] * 30,
        [(0, 3000, 500), (0, 5000, 1), (10**9, 10, 10)],
    ],
    ids=["one request", "ties", "too long for the pool"],
)
def test_odd_traces_in_a_tiny_pool(
    rows: list[tuple[int, int, int]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "odd.csv", rows)
    allocators = ("--allocators", "orca-max,orca-oracle,paged,prefix")
    small = ("--kv-memory", "512MiB", "--max-model-len", "4096", "--jobs", "1")
    assert main(["compare", trace, *allocators, *small, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for row in document["rows"]:
        metrics = row["metrics"]
        assert metrics["finished"] + metrics["refused"] == len(rows), row["name"]
        for share in (*row["kv_bytes_share"].values(), *row["views"].values()):
            assert share is None or sum(share.values()) == pytest.approx(1, abs=1e-12)
    assert main(["compare", trace, *allocators, *small]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_rows_that_are_alike_have_no_star(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without ids nothing is shared: ``prefix`` does what ``paged`` does."""
    trace = write_trace(tmp_path / "plain.csv", [(10**7 * i, 200, 40) for i in range(40)])
    options = ("--allocators", "paged,prefix", "--kv-memory", "2GiB", "--max-model-len", "2048")
    assert main(["compare", trace, *options, "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines[4:] if "*" in line]


def command(*options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "kvsim.cli", "compare", TRACE, *options]


def test_a_closed_pipe_is_no_error() -> None:
    options = ("--limit", "20", "--allocators", "paged", "--jobs", "1", "--json")
    with subprocess.Popen(
        command(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in error


def workers_of(pid: int) -> list[int]:
    """Process ids of workers that have come so far as to import the engine."""
    found = []
    for child in (one.pid for one in listed() if one.parent == pid):
        folder = Path(f"/proc/{child}")
        try:
            words = (folder / "cmdline").read_bytes()
            maps = (folder / "maps").read_text("utf-8") if b"spawn_main" in words else ""
        except OSError:
            continue
        if "numpy" in maps:
            found.append(child)
    return found


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks for workers in /proc")
@pytest.mark.parametrize("victim", ["worker", "parent"])
def test_a_killed_process_leaves_nothing_behind(victim: str, tmp_path: Path) -> None:
    options = ("--allocators", "paged,prefix", "--jobs", "2", "--step", "--out", "x")
    with subprocess.Popen(
        command(*options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        while len(workers := workers_of(process.pid)) < 2 and process.poll() is None:
            time.sleep(0.02)
        assert len(workers) == 2
        os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
        if victim == "worker":
            out, error = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, out) == (2, "")
            assert "a process that simulated was killed" in error.splitlines()[-1]
            assert "Traceback" not in error
            assert list(tmp_path.iterdir()) == []
        try:
            wait_for_the_end_of(process.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
