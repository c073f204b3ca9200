"""``kvsim trace info | convert | sample | slice | fetch``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path, read_trace

DATA = Path(__file__).parents[2] / "data"
CHAT = str(bundled_path("chat-2k"))
SMALL = "arrival_ns,prompt_tokens,output_tokens,session\n0,10,1,a\n5,30,2,b\n1000000000,20,9,a\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.csv").write_text(SMALL)
    return "small.csv"


def test_info_shows_receipt_statistics_and_histogram(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "info", small]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].startswith("trace     small.csv (kvsim-csv)")
    assert "requests                3 rows, 3 requests, 2 sessions" in lines
    assert "arrivals                3/s over 1 s, CV of gaps 1" in lines
    assert any(line.split() == ["prompt", "20.0", "20.0", "28.0", "29.8", "30"] for line in lines)
    assert any(line.split()[:3] == ["up", "to", "50"] and "#" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_info_tells_who_asks_for_several_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "several.csv"
    path.write_text(
        "arrival_ns,prompt_tokens,output_tokens,num_samples\n0,9,1,4\n5,9,2,1\n5,9,2,2\n"
    )
    assert main(["trace", "info", str(path)]) == 0
    line = "requests                3 rows, 3 requests, 2 for several outputs"
    assert line in capsys.readouterr().out.splitlines()


def test_info_counts_users_and_every_command_keeps_them(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = SMALL.replace("session", "user,session").replace("1,a", "1,ann,a").replace("2,b", "2,,b")
    (tmp_path / small).write_text(rows.replace("9,a", "9,bob,a"))
    assert main(["trace", "info", small]) == 0
    assert "3 rows, 3 requests, 2 sessions, 2 users\n" in capsys.readouterr().out
    for command in (["convert"], ["slice", "--rows", "0:3"], ["sample", "--requests", "3"]):
        for suffix in (".csv", ".jsonl", ".parquet"):
            assert main(["trace", command[0], small, f"out{suffix}", *command[1:]]) == 0
            assert read_trace(f"out{suffix}").user == ["ann", "", "bob"]


def test_info_as_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", small, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvsim.trace-info/1"
    statistics = document["statistics"]
    assert statistics["prompt"]["mean"] == 20
    assert statistics["output"]["max"] == 9
    assert statistics["arrivals"]["rate_per_s"] == 3
    assert document["receipt"]["rows_read"] == 3


def test_arrivals_are_of_requests_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", str(DATA / "tracelab.csv")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "of the 2 requests that have times of their own" in text


@pytest.mark.parametrize("suffix", [".csv", ".jsonl.gz", ".parquet", ".csv.zst"])
def test_convert_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    out = tmp_path / f"x{suffix}"
    assert main(["trace", "convert", CHAT, str(out), "--limit", "50"]) == 0
    assert capsys.readouterr().out == f"{out}: 50 requests written\n"
    first, again = read_trace(CHAT, limit=50), read_trace(out)
    for name in ("arrival_ns", "prompt_tokens", "output_tokens", "max_tokens", "delay_ns"):
        assert getattr(first, name).tolist() == getattr(again, name).tolist()
    assert first.prefix is not None
    assert again.prefix is not None
    assert first.prefix.ids.tolist() == again.prefix.ids.tolist()


def test_sample_and_slice(small: str, tmp_path: Path) -> None:
    assert main(["trace", "sample", small, "s.csv", "--requests", "2", "--seed", "3"]) == 0
    part = read_trace(tmp_path / "s.csv")
    assert part.session in (["a", "a"], ["b", "a", "a"], ["a", "b", "a"])
    assert main(["trace", "sample", small, "s.csv", "--fraction", "1"]) == 0
    assert len(read_trace(tmp_path / "s.csv")) == 3
    assert main(["trace", "slice", small, "t.csv", "--rows", "1:"]) == 0
    assert read_trace(tmp_path / "t.csv").arrival_ns.tolist() == [0, 999_999_995]
    assert main(["trace", "slice", small, "t.csv", "--time", ":0.5"]) == 0
    assert len(read_trace(tmp_path / "t.csv")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "small.csv", "o.csv", "--fraction", "2"], "--fraction is 2.0; allowed"),
        (["sample", "small.csv", "o.csv", "--requests", "0"], "0 requests were asked for"),
        (["sample", "small.csv", "o.csv", "--requests", "1", "--seed", "-1"], "--seed is -1"),
        (["slice", "small.csv", "o.csv", "--rows", "7"], "--rows is '7'; it has the form A:B"),
        (["slice", "small.csv", "o.csv", "--rows", "3:"], "no request is left"),
        (["slice", "small.csv", "o.csv", "--time", "9:"], "arrive from 0 s to 1 s"),
        (["slice", "small.csv", "o.csv", "--time", "x:"], "--time is 'x:'"),
        (["convert", "small.csv", "o.txt"], "choices: .csv, .jsonl, .parquet"),
        (["info", "absent.csv"], "absent.csv"),
        (["info", "small.csv", "--seed", "-1"], "--seed is -1"),
        (["convert", "small.csv", "o.csv", "--arrivals", "closed"], "closed is for kvsim simulate"),
        (["fetch", "nothing"], "trace 'nothing' is unknown; choices: azure-conv-2023"),
    ],
)
@pytest.mark.usefixtures("small")
def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["trace", *arguments]) == 2
    *_, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("kvsim: ")
    assert message in sentence


def test_what_a_file_does_not_say_is_drawn(small: str, tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("num_prefill_tokens,num_decode_tokens\n5,6\n7,8\n9,3\n")
    drawn = ["trace", "convert", "lengths.csv", "o.jsonl"]
    assert main(drawn) == 2
    assert main([*drawn, "--rate", "2"]) == 0
    assert read_trace(tmp_path / "o.jsonl").arrival_ns.tolist() == [0, 500_000_000, 1_000_000_000]
    assert main([*drawn, "--arrivals", "poisson(rate=1)", "--seed", "-1"]) == 2
    assert main(["trace", "slice", small, "o.jsonl", "--rows", ":2", "--rate", "10"]) == 0
    assert read_trace(tmp_path / "o.jsonl").arrival_ns.tolist() == [0, 100_000_000]


def test_info_and_reuse_take_all_reading_options(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = ["--arrivals", "poisson(rate=4)", "--seed", "3", "--json"]
    rates = []
    for _ in range(2):
        assert main(["trace", "info", str(DATA / "vidur_lengths.csv"), *drawn]) == 0
        document = json.loads(capsys.readouterr().out)
        rates.append(document["statistics"]["arrivals"]["rate_per_s"])
        assert any("drawn by poisson(rate=4)" in note for note in document["receipt"]["notes"])
    assert rates[0] == rates[1] is not None
    bailian = ["trace", "reuse", str(DATA / "bailian.jsonl"), "--json", "--output-ids"]
    assert main([*bailian, "next-turn"]) == 0
    printed = capsys.readouterr()
    assert "inferred from the prompt of the next turn" in " ".join(printed.err.split())
    inferred = json.loads(printed.out)["ceiling"]["tokens_in_leading_run"]
    assert main([*bailian, "anonymous"]) == 0
    assert json.loads(capsys.readouterr().out)["ceiling"]["tokens_in_leading_run"] <= inferred


def test_fetch_without_a_name_lists_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "fetch"]) == 0
    printed = capsys.readouterr().out
    assert "mooncake-conversation" in printed
    assert "CC-BY-4.0" in printed


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kvsim.cli.main import build_parser; build_parser().format_help(); "
        "print(sorted({'numpy', 'pandas', 'scipy', 'plotly', 'pyarrow', 'torch'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
