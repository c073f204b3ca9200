"""Options that say how a trace is understood, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvsim.cli.main import main

DATA = Path(__file__).parents[2] / "data"


def simulate(tmp_path: Path, file: str, *options: str) -> int:
    return main(["simulate", str(DATA / file), "--out", str(tmp_path / "run"), *options])


@pytest.mark.parametrize(
    ("file", "options", "note"),
    [
        ("vidur_lengths.csv", ["--rate", "2"], "arrival times drawn by rate=2"),
        ("vidur_lengths.csv", ["--arrivals", "gamma(cv=2)", "--rate", "2"], "drawn by gamma(cv=2"),
        ("tair_tokens.jsonl", ["--output-tokens", "uniform(3,9)"], "output lengths drawn by"),
        ("bailian.jsonl", ["--output-ids", "next-turn"], "outputs of 1 request have ids that were"),
        ("golden.json", ["--output-ids", "anonymous"], "hits are a lower bound"),
        ("fleet_sim.csv", ["--spread-ties"], "spread over 12 ms (--spread-ties)"),
        (
            "kv_cache_tester.jsonl",
            ["--session-rate", "0.1", "--on-bad-row", "skip"],
            "2 sessions start by --session-starts poisson(rate=0.1)",
        ),
        ("llmperf.json", ["--on-bad-row", "skip", "--rate", "1"], "1: the file calls it failed"),
        ("vidur_lengths.csv", ["--users", "1"], "needs --rate, --arrivals or --users"),
        (
            "kv_cache_tester.jsonl",
            ["--users", "2", "--on-bad-row", "skip"],
            "2 sessions; the file has no starts of sessions",
        ),
    ],
)
def test_an_option_does_what_its_note_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, options: list[str], note: str
) -> None:
    assert simulate(tmp_path, file, "--json", *options) == 0
    captured = capsys.readouterr()
    assert note in " ".join(captured.err.split())
    assert json.loads(captured.out)["requests"]["finished"] >= 2


@pytest.mark.parametrize(
    ("file", "options", "sentence"),
    [
        ("vidur_lengths.csv", [], "give --rate R"),
        ("vidur_lengths.csv", ["--arrivals", "poisson"], "needs a rate"),
        ("vidur_lengths.csv", ["--arrivals", "sometimes"], "--arrivals is 'sometimes'; choices"),
        ("tair_tokens.jsonl", [], "give --output-tokens"),
        ("burstgpt.csv", [], "Response tokens is 0"),
        ("bailian.jsonl", ["--arrivals", "closed"], "give --think-time"),
        ("llmperf.json", ["--rate", "1"], "the request failed (error_code 429)"),
        ("length_cdf.json", [], "a distribution of total lengths"),
        ("tracelab.csv", ["--session-rate", "1"], "has arrival times: leave them out"),
        ("azure.csv", ["--think-time", "5s"], "--think-time is for closed loops"),
        (
            "tracelab.csv",
            ["--arrivals", "closed", "--think-time", "5s"],
            "this trace records all of them",
        ),
        ("tracelab.csv", ["--users", "0"], "--users is 0"),
        ("azure.csv", ["--users", "2", "--rate", "5"], "--rate says when requests arrive"),
        ("azure.csv", ["--users", "2", "--arrivals", "poisson"], "leave out --arrivals or --users"),
        ("azure.csv", ["--users", "2", "--rate-scale", "2"], "leave out --rate-scale or --users"),
        ("tracelab.csv", ["--users", "2", "--session-rate", "1"], "leave out --session-rate or"),
        ("azure.csv", ["--timeout", "5h"], "--timeout is '5h'; allowed are times above 0"),
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, options: list[str], sentence: str
) -> None:
    assert simulate(tmp_path, file, *options) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("kvsim: ")
    assert sentence in error


def test_same_seed_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--arrivals", "poisson", "--rate", "2", "--json", "--seed", "5"]
    outputs = []
    for folder in ("one", "two"):
        assert simulate(tmp_path / folder, "vidur_lengths.csv", *options) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_turns_without_a_time_wait_for_the_answer_before_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["simulate", str(DATA / "tracelab.csv"), "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["requests"]["finished"] == summary["requests"]["total"]


def test_closing_the_loop_needs_turns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(DATA / "azure.csv"), "--arrivals", "closed"]) == 2
    assert "--arrivals closed needs turns that follow each other" in capsys.readouterr().err
