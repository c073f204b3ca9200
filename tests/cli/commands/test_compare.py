"""``kvsim compare`` end to end on the first requests of the bundled trace."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.cli.text.progress import Progress
from kvsim.traces import bundled_path, read_trace, write_trace
from tests.patience import PATIENCE_S
from tests.processes import wait_for_the_end_of

TRACE = str(bundled_path("chat-2k"))
FEW = (TRACE, "--limit", "40", "--kv-memory", "2GiB", "--max-model-len", "4096", "--jobs", "1")
BUSY = (*FEW, "--rate-scale", "30", "--slo", "ttft=2s")
ALLOCATORS = ("--allocators", "orca-max,orca-pow2,orca-oracle,paged,prefix")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compare", *BUSY, *ALLOCATORS, "--vary", "engine.max_num_seqs=64,128"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert out.count("KV while waiting") == 4, "10 scenarios, 3 a block"
    for word in ("token", "free", "peak running", "TPOT p99", "goodput", "hit rate", "verdict"):
        assert word in out
    assert list(tmp_path.iterdir()) == [], "no file without --out"


def test_the_head_says_what_serves_and_the_end_what_to_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--rate-scale", "30", "--allocators", "paged,prefix", "--record", "blocks")
    assert main(["compare", *FEW, *options, "--out", "a b"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^arrivals +\d+\.\d+ requests a second$", text, re.MULTILINE)
    assert re.search(r"^served by +llama-3.1-8b on h100-sxm$", text, re.MULTILINE)
    assert "report                  a b/report.html: open it in a browser\n" in text
    assert "block map               kvsim report 'a b' --block-map\n" in text


def test_a_line_that_no_row_has_a_value_for_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", *FEW, "--allocators", "paged,prefix"]) == 0
    text = capsys.readouterr().out
    assert "KV while waiting" not in text, "nobody waits at this rate"
    assert "goodput" not in text, "no limits are given"
    assert "KV all time" in text


def test_the_best_of_a_row_has_a_star(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *BUSY, *ALLOCATORS]) == 0
    lines = capsys.readouterr().out.splitlines()
    (hits,) = [line for line in lines if line.startswith("hit rate")]
    assert hits.endswith("*")
    assert hits.count("*") == 1
    (finished,) = [line for line in lines if line.startswith("finished")]
    assert "*" not in finished
    (refused,) = [line for line in lines if line.startswith("refused")]
    assert "*" not in refused, "all alike"


def test_orders_that_overtake_show_whom_it_hurts(capsys: pytest.CaptureFixture[str]) -> None:
    sjf = ("--set", "predictor.kind=oracle", "--vary", "queue.policy=fcfs,sjf")
    burst = (*FEW, "--rate-scale", "1000", "--set", "engine.max_num_seqs=4")
    assert main(["compare", *burst, "--json", *sjf]) == 0
    fcfs, shortest = (row["metrics"] for row in json.loads(capsys.readouterr().out)["rows"])
    assert fcfs["most_overtaken"] == 0 < shortest["most_overtaken"]
    assert shortest["ttft_s_mean"] < fcfs["ttft_s_mean"]
    assert main(["compare", *burst, *sjf]) == 0
    assert "\nlongest wait " in capsys.readouterr().out
    assert main(["compare", *burst, "--allocators", "paged,prefix"]) == 0
    assert "\nlongest wait " not in capsys.readouterr().out, "FCFS alone: nobody was overtaken"


def test_users_are_told_apart_where_the_trace_names_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=60)
    trace.user = ["ann" if row % 3 else "bob" for row in range(60)]
    write_trace(trace, tmp_path / "x.csv")
    options = [*FEW[3:], "--rate-scale", "1000", "--set", "engine.max_num_seqs=2"]
    options += ["--vary", "queue.policy=fcfs,fair"]
    assert main(["compare", str(tmp_path / "x.csv"), *options, "--json"]) == 0
    fcfs, fair = (row["metrics"] for row in json.loads(capsys.readouterr().out)["rows"])
    assert fair["other_users_ttft_s_mean"] < fcfs["other_users_ttft_s_mean"]
    assert fair["heaviest_user_ttft_s_mean"] > fcfs["heaviest_user_ttft_s_mean"]
    assert main(["compare", str(tmp_path / "x.csv"), *options]) == 0
    assert "\nother users' TTFT p99 " in capsys.readouterr().out
    assert main(["compare", *FEW, "--allocators", "paged,prefix"]) == 0
    assert "other users" not in capsys.readouterr().out


def test_json_is_one_document_and_the_same_bytes_each_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    printed = []
    for name in ("a", "b"):
        options = ("--allocators", "paged,prefix", "--json", "--out", name)
        assert main(["compare", *BUSY, *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert [row["name"] for row in json.loads(printed[0])["rows"]] == ["paged", "prefix"]
    for name in ("a", "b"):
        files = sorted(path.name for path in (tmp_path / name).iterdir())
        assert files == ["comparison.json", "report.html"]
        assert (tmp_path / name / "comparison.json").read_text("utf-8") == printed[0]
    pages = [(tmp_path / name / "report.html").read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


def test_varied_keys_stand_on_the_scenario_of_the_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--scenario", "vllm-0.12", "--vary", "engine.block_size=16,32")
    assert main(["compare", *FEW, *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == ["engine.block_size=16", "engine.block_size=32"]
    assert {row["scenario"]["preset"] for row in rows} == {"vllm-0.12"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "there is nothing to compare: give --allocators, --vary or a --preset"),
        (("--allocators", "x"), "'x' is unknown"),
        (("--allocators", "paged", "--scenario", "vllm-0.8"), "both name scenarios"),
        (("--allocators", "paged", "--jobs", "0"), "--jobs is 0; it must be at least 1"),
        (("--allocators", "paged", "--seed", "-1"), "--seed is -1"),
        (
            ("--allocators", "paged", "--out", "full"),
            "full is there already, and nothing is",
        ),
        (("--preset", "levels"), "--preset 'levels' is unknown (did you mean 'levers'"),
        (("--preset", "levers", "--vary", "a.b=1"), "says what is compared: leave --vary out"),
        (("--preset", "long-vs-short"), "makes its own requests: no --limit"),
    ],
)
def test_errors_are_one_sentence(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    assert main(["compare", *FEW, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_presets_with_and_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--preset", "levers"]) == 2
    assert "which requests? Name a TRACE" in capsys.readouterr().err
    assert main(["compare", TRACE, "--preset", "sosp23-fig2"]) == 2
    assert "makes its own requests: leave TRACE out" in capsys.readouterr().err
    assert main(["compare", *BUSY, "--preset", "levers"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for name in ("MHA", "GQA", "fp8 KV", "cap", "paged", "prefix"):
        assert name in out
    assert "one attention kernel for all memory layouts" in out.replace("\n" + " " * 24, " ")


def test_ctrl_c_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_ctrl_c(_self: Progress, _done: int, _total: int) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", press_ctrl_c)
    assert main(["compare", *FEW, "--allocators", "paged,prefix", "--out", "x"]) == 130
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay_s", [0.02, 0.05, 0.5])
def test_ctrl_c_ends_the_processes(delay_s: float, tmp_path: Path) -> None:
    options = (TRACE, "--allocators", "paged,prefix", "--jobs", "2", "--step", "--out", "x")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kvsim.cli", "compare", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not any(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay_s)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    # CPython ends itself by the signal where Ctrl-C came while it ran text, as dataclasses do; a
    # shell sees 130 both ways
    assert process.returncode in {130, -signal.SIGINT}
    assert out == ""
    assert "kvsim: stopped" in err.splitlines()
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    wait_for_the_end_of(process.pid)


def test_block_sizes_are_not_swept_below_what_the_ids_tell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mooncake = str(Path(__file__).parents[2] / "data" / "mooncake.jsonl")
    sweep = ("compare", mooncake, "--jobs", "1", "--vary")
    assert main([*sweep, "engine.block_size=16,32"]) == 2
    assert "its ids name 512 tokens" in capsys.readouterr().err.splitlines()[-1]
    assert main([*sweep, "engine.block_size=512,1024"]) == 0
    assert main([*sweep, "engine.max_num_seqs=4,8"]) == 0, "one size is a stated lower bound"


def test_what_no_engine_could_be_gets_no_star(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", *FEW, "--limit", "150", "--rate-scale", "30"]
    policies = "eviction.policy=lru,mru,furthest-next-use"
    assert main([*command, "--vary", policies]) == 0
    out = capsys.readouterr().out
    hits = [line for line in out.splitlines() if line.startswith("hit rate,")]
    assert "".join(hits).count("*") == 1
    assert not hits[-1].endswith("*")
    assert "hit rate +" in out
    assert "a difference, no bound" in " ".join(out.split())
    assert main([*command, "--vary", "eviction.capacity=none,inf"]) == 0
    (line,) = [li for li in capsys.readouterr().out.splitlines() if li.startswith("hit rate,")]
    assert "*" not in line
    lru, ceiling = (float(text) for text in line.split()[-2:])
    assert ceiling > lru


@pytest.mark.parametrize(
    ("rates", "message"),
    [("2,x", "rate scale 'x' must be a number above 0"), ("2,4/2", "one is there twice")],
)
def test_rates_that_cannot_be_run(
    rates: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", *FEW, "--allocators", "paged,prefix", "--rate-scale", rates]
    assert main(command) == 2
    assert message in capsys.readouterr().err
