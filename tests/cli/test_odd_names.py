"""Names that a terminal would obey, or that are no text: runs, pages and pictures bear them."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.dom import minidom

import pandas as pd
import pytest

from kvsim.cli.main import main
from kvsim.cli.text.colour import STATE_COLOURS
from kvsim.cli.text.compare_table import comparison_lines
from kvsim.cli.text.table import table, wrapped
from kvsim.cli.text.watch_panel import Clock, Snapshot, panel_lines
from kvsim.sim.comparison.comparison import compare
from kvsim.sim.folders.place import BLOCK_MAP, REPORT
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces import bundled_path, read_trace
from kvsim.traces.common.text import num_columns, printable

if TYPE_CHECKING:
    from pathlib import Path

OBEYED = "\x1b[2J\x07\x00\x08\u202e\u200f\u200b\ufeff\n\t"
COMMANDS = set("\x1b\x07\x00\x08\u202e\t\u200f\u200b\ufeff")
HALF = "\ud800"


def write_trace(path: Path, name: str) -> None:
    rows = [
        {
            "id": f"{name}{row}",
            "arrival_ns": row * 10**7,
            "prompt_tokens": 400,
            "output_tokens": 9,
            "session": name,
        }
        for row in range(20)
    ]
    head = {"kvsim_trace": {"version": 1, "name": name, "keep_zero": True}}
    path.write_text("\n".join(map(json.dumps, [head, *rows])), encoding="utf-8")


def kvsim(folder: Path, *words: str, encoding: str = "utf-8") -> str:
    """Both outputs of a command that must work, as a terminal would get them."""
    said = io.BytesIO()
    out = io.TextIOWrapper(said, encoding, "strict", write_through=True)  # as a new process
    err = io.TextIOWrapper(said, encoding, "backslashreplace", write_through=True)  # opens them
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main(list(words))
    text = said.getvalue().decode(encoding, "replace")
    assert code == 0, text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("name", [OBEYED, HALF])
def test_a_run_and_its_pictures(tmp_path: Path, name: str) -> None:
    write_trace(tmp_path / "odd.jsonl", name)
    words = ["simulate", "odd.jsonl", "--kv-memory=1GiB", "--record=blocks", "--out=run"]
    said = kvsim(tmp_path, *words, "--perfetto=timeline.json")
    said += kvsim(tmp_path, "report", "run", "--block-map", "--svg=a.svg", "--png=a.png")
    assert not set(said) & COMMANDS
    ids = pd.read_parquet(tmp_path / "run" / "requests.parquet")["request"]
    assert ids.is_unique
    if name != HALF:
        assert ids[3] == f"{name}3", "programs get names as they are"
    minidom.parse(str(tmp_path / "a.svg"))
    json.loads((tmp_path / "timeline.json").read_text("utf-8"))
    for page in (REPORT, BLOCK_MAP):
        (tmp_path / "run" / page).read_text("utf-8")


@pytest.mark.parametrize("name", [OBEYED, HALF])
def test_a_comparison(tmp_path: Path, name: str) -> None:
    write_trace(tmp_path / "odd.jsonl", name)
    words = ["compare", "odd.jsonl", "--kv-memory=1GiB", "--allocators=paged,prefix"]
    said = kvsim(tmp_path, *words, "--out=compared", "--jobs=1")
    assert not set(said) & COMMANDS
    (tmp_path / "compared" / REPORT).read_text("utf-8")


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    write_trace(plain, "plain")
    try:
        plain.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b.jsonl"))
    except OSError:
        pytest.skip("file names are text here")
    done = subprocess.run(
        [sys.executable, "-m", "kvsim.cli", "simulate", "\udcff\x1b.jsonl", "--kv-memory=1GiB"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert b"\x1b" not in done.stdout
    (page,) = (tmp_path / "kvsim-runs").glob(f"*/{REPORT}")
    assert "sha256" in page.read_text("utf-8")


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    write_trace(tmp_path / "plain.jsonl", "plain")
    try:
        (tmp_path / "\udcfe").mkdir()
        (tmp_path / "\udcfe").rmdir()
    except OSError:
        pytest.skip("file names are text here")
    words = ["simulate", "plain.jsonl", "--kv-memory=1GiB", "--record=blocks", "--out=\udcfe"]
    kvsim(tmp_path, *words)
    kvsim(tmp_path, "report", "\udcfe", "--block-map")
    assert (tmp_path / "\udcfe" / BLOCK_MAP).exists()


def test_frames_hold_names_that_are_no_text_as_files_do(tmp_path: Path) -> None:
    write_trace(tmp_path / "odd.jsonl", HALF)
    trace = read_trace(tmp_path / "odd.jsonl")
    compared = compare(trace, {HALF: Scenario.load("vllm-0.32")}, jobs=1)
    assert set(compared.frame["name"]) == set(compared.requests["name"]) == {r"\ud800"}
    run = compared.runs[HALF]
    run.save(tmp_path / "run")
    saved = pd.read_parquet(tmp_path / "run" / "requests.parquet")
    assert list(saved["request"]) == list(run.requests["request"])
    assert run.requests["request"][3] == r"\ud8003"


def test_a_terminal_without_the_letters_of_a_name(tmp_path: Path) -> None:
    write_trace(tmp_path / "odd.jsonl", "\u8ffd\u8e2a")
    words = ["simulate", "odd.jsonl", "--kv-memory=1GiB", "--out=run"]
    assert "\\u8ffd\\u8e2a" in kvsim(tmp_path, *words, encoding="latin-1")


def test_wide_letters_are_two_columns(tmp_path: Path) -> None:
    name = "\u4f1a\u8a71\u306e\u8a18\u9332 " * 6  # names that take 66 columns
    write_trace(tmp_path / "odd.jsonl", name.strip())
    for words in (["simulate"], ["compare", "--allocators=paged"]):
        said = kvsim(tmp_path, *words, "odd.jsonl", "--kv-memory=1GiB", f"--out={words[0]}")
        assert "\u8a18\u9332" in said
        assert max(map(num_columns, said.splitlines())) <= 80


def test_names_of_300_letters_are_shortened_in_the_middle(tmp_path: Path) -> None:
    first, second = "x" * 150 + "y" * 149 + "1", "x" * 150 + "y" * 149 + "2"
    write_trace(tmp_path / "long.jsonl", first)
    words = ["long.jsonl", "--kv-memory=1GiB", "--out=out"]
    said = kvsim(tmp_path, "simulate", *words, "--set=engine.max_model_len=401")
    assert max(map(num_columns, said.splitlines())) <= 80
    assert re.search(r"trace +x+\.\.\.y+1, 20 requests|trace +x+\.\.\.y+1,\n +20 requests", said)
    trace = read_trace(tmp_path / "long.jsonl")
    lines = comparison_lines(compare(trace, {first: Scenario(), second: Scenario()}, jobs=1))
    assert max(map(num_columns, lines)) <= 80
    for name in (first, second):
        assert any(re.search(rf"^x+\.\.\.y+{name[-1]}( |$)", line) for line in lines), "its verdict"


def test_paths_stay_whole() -> None:
    path = "runs/" + "x" * 90
    assert wrapped("run folder", path) == [f"{'run folder':<24}{path}"]


def test_accents_are_a_part_of_their_letter() -> None:
    assert table([("caf\u0065\u0301", "1"), ("cafe", "2")], width=40) == [
        "caf\u00e9" + " " * 35 + "1",
        "cafe" + " " * 35 + "2",
    ]


def test_columns_of_wide_names_stay_aligned() -> None:
    assert table([("\u540d\u524d", "\u5024"), ("name", "1")], width=40) == [
        "\u540d\u524d" + " " * 34 + "\u5024",
        "name" + " " * 35 + "1",
    ]
    trace = read_trace(bundled_path("chat-2k"), limit=20)
    scenarios = {name: Scenario() for name in ("lru", "\u5206\u9801, k.v=" + "\u6700\u8fd1" * 20)}
    lines = comparison_lines(compare(trace, scenarios, jobs=1))
    heads = [line for line in lines if "\u6700" in line and line.startswith(" " * 20)]
    assert [num_columns(line) for line in heads] == [80]
    assert "..." in heads[0]
    assert heads[0].endswith("\u8fd1"), "the middle is left out"


@pytest.mark.parametrize("width", [20, 41, 80])
def test_the_watched_panel_is_no_wider_than_its_terminal(width: int) -> None:
    shares = dict.fromkeys(STATE_COLOURS, 1 / 6)
    now = Snapshot(shares, 2**30, 1, 2, "blocks", 3, 4, 5, 6, None, None)
    about = "\u4f1a\u8a71\u306e\u8a18\u9332: " * 9
    lines = panel_lines(now, Clock(about, 1.0, 2.0, 3.0), [0.5], width=width)
    assert num_columns(lines[0]) == width
    assert max(map(num_columns, lines)) <= width


def test_a_fault_says_the_name_and_does_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvsim.cli", "simulate", "\x1b[2Jabsent.csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u8ffd\u8e2a \U0001f600 \u00a0", "plain \u8ffd\u8e2a \U0001f600 \u00a0"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("\x1b[31m\x9b\x7f", "\ufffd[31m\ufffd\ufffd"),
        ("\u202eabc\u2066", "\ufffdabc\ufffd"),
        ("\ud83d and \udcff", "\ufffd and \ufffd"),
        ("a\u200b\u200db\u200e\u200f\u061c", "a\ufffd\ufffdb\ufffd\ufffd\ufffd"),
        ("\ufeffa\u2060\u00ad\U000e0041", "\ufffda\ufffd\ufffd\ufffd"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
