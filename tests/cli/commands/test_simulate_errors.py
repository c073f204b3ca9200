"""What ``kvsim simulate`` refuses and when, and what it never loses."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.sim.folders.place import latest_result
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

FEW = (str(bundled_path("chat-2k")), "--limit", "60")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "engine.blok_size=3"), "key engine.blok_size is unknown (did you mean"),
        (("--slo", "ttft"), "--slo 'ttft' is not of the form"),
        (("--slo", "ttft=2"), "slo.ttft = '2': has no unit"),
        (("--model", "llama-3.1-9b"), "llama-3.1-8b"),
        (("--hardware", "h999"), "(23 in all), see kvsim list hardware"),
        (("--num-blocks", "many"), "engine.num_gpu_blocks_override = 'many'"),
        (("--max-model-len", "0"), "engine.max_model_len = 0"),
        (("--rate-scale", "0"), "rate scale '0' must be a number above 0"),
        (("--assume-max-tokens", "oracle"), "--assume-max-tokens is 'oracle'"),
        (("--scenario", "vllm-9"), "neither a file nor a preset"),
        (("--set", "cost.source=linear"), "cost.source = 'linear' needs cost.base"),
        (("--set", "preemption.victim=[]"), "preemption.victim = []: expected one of by-queue"),
        (("--set", "eviction.policy={a=1}"), "eviction.policy = {'a': 1}: expected one of lru"),
        (("--set", "cost.base=4ms"), "cost.base belongs to cost.source = 'linear'"),
    ],
)
def test_wrong_options_end_in_one_sentence(
    options: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["simulate", *FEW, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = [line for line in printed.err.splitlines() if line.startswith("kvsim: ")]
    assert message in line
    assert not (tmp_path / "kvsim-runs").exists()


def test_a_strange_folder_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.tex").write_text("x")
    assert main(["simulate", "absent.csv", "--out", "thesis"]) == 2
    assert "thesis is there already, and nothing is written over it" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["simulate", "absent.csv", "--out", "file/run"]) == 2
    assert "file is a file, so file/run cannot be made" in capsys.readouterr().err


def test_a_disk_that_is_full_is_told_with_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvsim.sim.run.folder.run_page", fail)
    assert main(["simulate", *FEW, "--out", "a/b"]) == 2
    told = "kvsim: a/b cannot be written: No space left on device"
    assert capsys.readouterr().err.splitlines()[-1] == told
    assert not (tmp_path / "a").exists(), "what was made for it is taken away"


def test_a_second_ctrl_c_loses_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_again(_run: object) -> str:
        signal.raise_signal(signal.SIGINT)
        return "report"

    monkeypatch.setattr("kvsim.sim.run.folder.run_page", press_again)
    assert main(["simulate", *FEW]) == 130
    printed = capsys.readouterr()
    assert "step cost" in printed.out, "the table is printed"
    assert printed.err.splitlines()[-1] == "kvsim: stopped"
    assert (latest_result() / "manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "llama-3.1-9b"), "llama-3.1-8b"),
        (("--hardware", "h999"), "(23 in all), see kvsim list hardware"),
        (("--hardware", "t4"), "leaves -3.40 GiB for KV on t4"),
        (("--rate-scale", "0"), "rate scale '0'"),
        (("--assume-max-tokens", "oracle"), "--assume-max-tokens is 'oracle'"),
        (("--think-time", "5"), "--think-time is '5'"),
        (("--seed", "-1"), "--seed is -1"),
        (("--num-blocks", "9" * 400), "999...: expected a whole number >= 2, at most 2^63 - 1"),
        (("--num-blocks", "9" * 5000), "999...: expected a whole number >= 2"),
    ],
)
def test_what_needs_no_trace_is_refused_before_it_is_read(
    options: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "absent.csv", *options]) == 2
    assert message in capsys.readouterr().err


def test_refused_requests_come_with_the_reason_and_what_was_not_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = "arrival_ns,prompt_tokens,output_tokens,session,turn\n"
    rows += "0,2000,5,a,0\n5,10,20,a,1\n6,900,50,b,0\n"
    (tmp_path / "long.csv").write_text(rows)
    command = ["simulate", "long.csv", "--arrivals", "closed", "--think-time", "1s"]
    command += ["--max-model-len", "1000", "--num-blocks", "51"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "refused 2, unfinished 0, not sent 1" in printed
    assert " - %" not in printed
    assert "reason of the first   r0000: prompt of 2,000 tokens >= max_model_len 1,000" in printed
    saved = json.loads((latest_result() / "summary.json").read_text())
    assert saved["requests"]["refused_reasons"] == {
        "r0000": "prompt of 2,000 tokens >= max_model_len 1,000",
        "r0002": "needs 60 blocks, the pool has 50",
    }


def test_a_seed_below_zero_and_a_scenario_that_is_no_text_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    assert main(["simulate", *FEW, "--seed", "-1"]) == 2
    assert main(["simulate", *FEW, "--scenario", "bad.toml"]) == 2
    seed, bad = capsys.readouterr().err.splitlines()
    assert "--seed is -1" in seed
    assert "bad.toml: not TOML: the text is not UTF-8" in bad
