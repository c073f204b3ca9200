"""``kvsim calibrate fit``: the table it prints, the file it writes, one sentence for bad input."""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from kvsim.calibrate.shipped import error_rows
from kvsim.cli.main import main
from kvsim.cli.text.fit_table import condition_lines, error_lines
from kvsim.sim.cost.profile import HoldOut
from kvsim.sim.cost.profile_file import load_bundled_profile, load_profile


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Whole steps of one card: 40 ms + 0.2 ms a request."""
    rows = [
        {"model": "llama2-70b", "hardware": "h100-80gb", "prompt_size": p, "batch_size": b,
         "token_size": 128, "tensor_parallel": 4, "token_time": 40 + 0.2 * b + 0.001 * b * p,
         "prompt_time": max(80, 10 + 0.1 * p * b)}
        for p in (128, 512, 2048)
        for b in (1, 4, 16, 64)
    ]  # fmt: skip
    file = tmp_path / "steps.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    return file


def options(steps: Path, *more: str) -> list[str]:
    start = ["calibrate", "fit", str(steps), "--format", "splitwise", "--model", "llama-2-70b"]
    return [*start, "--tp", "4", *more]


def test_it_prints_terms_errors_and_assumptions(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.json"
    assert main(options(steps, "--out", str(out))) == 0
    shown = capsys.readouterr().out
    assert "llama-2-70b on h100-sxm, one of 4 ranks" in shown
    assert "decode_step" in shown
    assert "5/10 % passed" in shown
    assert "condition" in shown
    assert "host term" in shown
    *table, where = shown.splitlines()
    assert max(len(line) for line in table) <= 80
    assert where == f"written to {out}"
    profile = load_profile(out)
    assert (profile.name, profile.tp) == ("h100-sxm-llama-2-70b", 4)
    assert profile.hold_out["decode_step"].median < 0.01
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_profile_is_a_cost_source(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.json"
    main(options(steps, "--out", str(out)))
    trace = tmp_path / "trace.csv"
    trace.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,20\n", "utf-8")
    capsys.readouterr()
    run = ["simulate", str(trace), "--model", "llama-2-70b", "--tp", "4", "--hardware", "h100-sxm"]
    assert main([*run, "--set", f"cost.source={out}", "--out", str(tmp_path / "run")]) == 0
    assert "decode steps, prefill steps fitted" in " ".join(capsys.readouterr().out.split())


def test_a_large_error_is_warned_about(steps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_csv(steps)
    table["token_time"] *= [1, 2, 3] * 4
    table.to_csv(steps, index=False)
    assert main(options(steps)) == 0
    shown = capsys.readouterr().out
    assert "MISSED warning: above 10 %" in shown
    assert "MISSED: one of the two is larger" in shown


def test_the_table_of_errors_fits_80_columns() -> None:
    found = {"prefill_attention": HoldOut(0.357, 0.517, 4), "layer": HoldOut(1.15, 9.9, 123456)}
    lines = error_lines(
        replace(load_bundled_profile("l40s"), hold_out=found | {"weight_shapes": HoldOut(0, 0, 1)})
    )
    assert max(map(len, lines)) <= 80
    assert lines[1:4] == [
        "  prefill_attention   35.7 %  51.7 %       4  9/30 % MISSED warning: above 10 %",
        "  layer              115.0 % 990.0 % 123,456  5/20 % MISSED warning: above 10 %",
        "  weight_shapes        0.0 %   0.0 %       1",
    ]


def test_terms_that_cannot_be_told_apart_are_warned_about() -> None:
    assert condition_lines({"layer": 1000.0, "head": 1.2}) == []
    warned = condition_lines({"layer": 1000.1, "head": 1.2, "decode": math.inf})
    assert warned[0].startswith(
        "warning                 layer, decode: condition number above 1,000"
    )
    assert max(map(len, warned)) <= 80


def test_no_missed_gate_reads_as_kept() -> None:
    found = {"prefill_attention": HoldOut(0.0900001, 0.3000001, 4), "head": HoldOut(0.1004, 0.1, 4)}
    profile = replace(load_bundled_profile("l40s"), hold_out=found)
    assert error_lines(profile)[1:3] == [
        "  prefill_attention    9.1 %  30.1 %       4  9/30 % MISSED",
        "  head                10.1 %  10.0 %       4  warning: above 10 %",
    ]
    assert "| 9.1/30.1 ! |" in error_rows([profile])[2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "llama-2-70x"], "did you mean 'llama-2-70b'"),
        (["--model", "llama-3.1-8b"], "no rows of llama-3.1-8b on h100-sxm"),
        (["--tp", "3"], "tp=3 does not divide the 64 attention heads"),
        (["--tp", "2"], "no rows for tp=2; there are those of tp 4"),
        (["--hardware", "h100"], "did you mean 'h100-pcie' or 'h100-sxm'"),
        (["--hardware", "l40s"], "none of l40s"),
        (["--format", "vidur"], "no Vidur table by its file name"),
        (["--out", "nowhere/mine.json"], "there is no folder nowhere"),
        (["--out", "."], "is a folder; name a file"),
    ],
)
def test_bad_input_is_one_sentence(
    steps: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(steps, *more)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("kvsim: ")
    assert error.count("\n") == 1


def test_a_misspelt_format_names_the_nearest(
    steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(options(steps, "--format", "splitwize"))
    assert stopped.value.code == 2
    assert "did you mean 'splitwise'?" in capsys.readouterr().err
