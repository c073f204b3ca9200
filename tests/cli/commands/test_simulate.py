"""``kvsim simulate`` end to end on the first requests of the bundled trace."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.cli.commands.simulate import scenario_of
from kvsim.cli.main import build_parser, main
from kvsim.cli.text.progress import Progress
from kvsim.sim.folders.place import latest_result
from kvsim.sim.scenario.scenario import DEFAULT_PRESET
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.scenario.scenario import Scenario

TRACE = str(bundled_path("chat-2k"))
FEW = (TRACE, "--limit", "60")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scenario(*options: str) -> Scenario:
    return scenario_of(build_parser().parse_args(["simulate", "x.csv", *options]))


def summary(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["simulate", *FEW, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_table_fits_80_columns_and_names_its_defaults(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["simulate", *FEW, "--slo", "ttft=2s,tpot=50ms"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == (f"defaults: preset {DEFAULT_PRESET}, model llama-3.1-8b, hardware h100-sxm")
    assert (
        lines[1]
        == f"rules of {DEFAULT_PRESET}      schedule verified step by step against recorded logs"
    )
    assert max(len(line) for line in lines) <= 80
    for word in ("verdict", "TTFT", "goodput", "KV memory", "step cost"):
        assert word in printed.out
    assert "60 read" in printed.err
    assert "60 read" not in printed.out
    assert latest_result().parent.samefile(tmp_path / "kvsim-runs")
    assert (latest_result() / "manifest.json").exists()
    assert f"\nrun folder              {latest_result()}\n" in printed.out


def test_the_column_of_waiting_is_explained_and_shown_only_where_requests_waited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", *FEW]) == 0
    idle = capsys.readouterr().out
    assert "\n  no request waited longer than for a step to end\n" in idle
    assert re.search(r"\nwaited \(request-s\) +step in progress \S+ \S+, max_num_seqs 0 s,", idle)
    assert "while waiting" not in idle
    assert "x 1,024 requests x 128,256 vocabulary" in " ".join(idle.split())
    assert main(["simulate", *FEW, "--num-blocks", "300", "--rate-scale", "20"]) == 0
    busy = capsys.readouterr().out
    assert "KV memory                       all time   while waiting\n" in busy
    assert "  while waiting: the last scheduling call had left requests in the queue\n" in busy
    assert max(map(len, busy.splitlines())) <= 80


@pytest.mark.slow
def test_an_infinite_cache_can_be_saved_and_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ceiling = summary(capsys, "--set", "eviction.capacity=inf")["cache"]["hit_percent"]
    assert ceiling >= summary(capsys, "--out", "usual")["cache"]["hit_percent"], "not the latest"
    manifest = json.loads((latest_result() / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["scheduler_config"]["eviction_capacity"] == "inf"
    assert main(["explain"]) == 0


def test_given_names_are_told_apart_from_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *FEW, "--hardware", "a100-sxm"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "given: hardware a100-sxm"
    assert second == f"defaults: preset {DEFAULT_PRESET}, model llama-3.1-8b"


def test_names_of_a_scenario_file_and_of_settings_are_given_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text('[model]\nname = "qwen2.5-7b"\n', encoding="utf-8")
    options = ("--scenario", "mine.toml", "--set", "hardware.name=a100-sxm")
    assert main(["simulate", *FEW, *options]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "given: scenario mine.toml, model qwen2.5-7b, hardware a100-sxm"
    assert second == f"defaults: preset {DEFAULT_PRESET}"
    assert main(["simulate", *FEW, "--scenario", DEFAULT_PRESET]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"given: preset {DEFAULT_PRESET}"


def test_json_is_one_document_with_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    document = summary(capsys, "--num-blocks", "500", "--audit")
    assert document["schema"] == "kvsim.summary/1"
    assert document["requests"]["total"] == 60
    assert document["memory"]["num_gpu_blocks"] == 500
    assert document["engine"]["audited"] > 0
    shares = document["memory"]["all_time"]["states_percent"]
    assert round(sum(shares.values()), 6) == 100


def test_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["simulate", *FEW, "--out", name, "--num-blocks", "300"]) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_rate_scale_divides_arrival_times(capsys: pytest.CaptureFixture[str]) -> None:
    plain = summary(capsys)["window"]["last_arrival_s"]
    assert summary(capsys, "--rate-scale", "2")["window"]["last_arrival_s"] == pytest.approx(
        plain / 2
    )


def test_options_become_scenario_keys() -> None:
    given = scenario(
        *("--scenario", "vllm-0.12", "--model", "m", "--hardware", "h", "--kv-memory", "12GB"),
        *("--max-model-len", "4096", "--slo", "ttft=2s,e2e=1min"),
        *("--set", "engine.max_num_seqs=8", "--set", "model.name=other"),
    )
    assert given.preset == "vllm-0.12"
    assert given.model.name == "other", "--set comes last"
    assert given.hardware.name == "h"
    assert given.engine.kv_memory_bytes == 12 * 10**9
    assert given.engine.max_model_len == 4096
    assert given.engine.max_num_seqs == 8
    assert (given.slo.ttft_ps, given.slo.e2e_ps) == (2 * 10**12, 60 * 10**12)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("model", "the room that max_model_len leaves after the prompt"),
        ("1024", "1,024 for each request"),
        ("factor(1.5)", "1.5 times the true output, which no engine knows"),
    ],
)
def test_the_receipt_says_what_max_tokens_is_assumed(
    rule: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("arrival_ns,prompt_tokens,output_tokens\n0,10,5\n")
    assert main(["simulate", "a.csv", "--assume-max-tokens", rule]) == 0
    receipt = " ".join(capsys.readouterr().err.split())
    assert f"max_tokens by rule {rule}: {words}" in receipt


def test_linear_cost_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--set", "cost.source=linear", "--set", "cost.base=4ms")
    document = summary(capsys, *options, "--num-blocks", "500")
    assert document["cost"]["source"] == "linear"
    assert document["latency"]["itl_s"]["p50"] == pytest.approx(0.004, rel=0.006)


def test_ctrl_c_leaves_a_partial_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_ctrl_c(_self: Progress, done: int, _total: int) -> None:
        if done == 30:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", press_ctrl_c)
    assert main(["simulate", *FEW]) == 130
    printed = capsys.readouterr()
    assert "PARTIAL" in printed.out
    manifest = json.loads((latest_result() / "manifest.json").read_text())
    assert manifest["partial"] is True
    saved = json.loads((latest_result() / "summary.json").read_text())
    assert 0 < saved["requests"]["unfinished"] < 60


def test_a_closed_stdout_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert main(["simulate", *FEW]) == 0


def test_answers_that_the_model_length_cuts_are_noted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = "arrival_ns,prompt_tokens,output_tokens,num_samples\n0,900,500,4\n5,10,20,1\n"
    (tmp_path / "long.csv").write_text(rows)
    assert main(["simulate", "long.csv", "--max-model-len", "1000", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("1 output was cut short, by 400 tokens" in note for note in notes)
    assert any("1 request asks for several outputs" in note for note in notes)


def test_a_datasheet_has_no_measured_range(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The keys of the summary stay; the table, the page and its comparison say nothing of it."""
    out = tmp_path / "run"
    trace = ("simulate", str(bundled_path("chat-2k")), "--limit", "5", "--out", str(out))
    assert main([*trace, "--hardware", "h200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "h200 datasheet (all assumed); " in shown
    cost = json.loads((out / "summary.json").read_text("utf-8"))["cost"]
    assert cost["percent_outside"] == 100
    page = (out / "report.html").read_text("utf-8")
    assert "<dt>step cost</dt><dd>h200 datasheet (all assumed)</dd>" in page
    for text in (shown, page):
        assert "measured range" not in text
