"""``kvsim explain``."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

TRACE = str(bundled_path("chat-2k"))
TIGHT = ["--limit", "60", "--rate-scale", "30", "--kv-memory", "1GiB", "--max-model-len", "8192"]


def simulated(folder: Path, *options: str) -> dict[str, Any]:
    assert main(["simulate", TRACE, *TIGHT, "--out", str(folder), "--json", *options]) == 0
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run for all who only read it."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    simulated(folder)
    return folder


def explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["explain", str(folder), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--set", "engine.enable_prefix_caching=false"),
        ("--scenario", "sglang-0.5"),
        ("--set", "queue.policy=longest-prefix-match", "--arrivals", "closed"),
    ],
)
def test_parts_add_up_to_what_the_summary_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    summary = simulated(tmp_path / "run", *options)
    found = explained(tmp_path / "run", capsys)
    hits = found["hits"]
    assert sum(hits["parts"].values()) == hits["prompt_tokens"]
    assert hits["prompt_tokens"] == summary["cache"]["prompt_tokens"]
    assert hits["parts"]["hit"] == summary["cache"]["hit_tokens"]
    ttft = found["ttft"]["all"]
    assert ttft["requests"] == 60
    assert sum(ttft["mean_parts_s"].values()) == pytest.approx(summary["latency"]["ttft_s"]["mean"])
    slowest = found["ttft"]["slowest"]
    assert slowest["requests"] == 1
    longest = summary["latency"]["ttft_s"]["max"]
    assert sum(slowest["mean_parts_s"].values()) == pytest.approx(longest)


def test_the_tables_fit_a_terminal(plain_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["explain", str(plain_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("sum") for line in lines) == 2


def test_what_cannot_be_explained_is_one_sentence(
    plain_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(plain_run, tmp_path / "run")
    manifest_path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(manifest_path.read_text())

    def error(**changes: Any) -> str:
        manifest_path.write_text(json.dumps(manifest | changes))
        capsys.readouterr()
        assert main(["explain", str(tmp_path / "run")]) == 2
        return capsys.readouterr().err

    trace = manifest["trace"]
    source = trace["source"]
    gone = trace | {"source": source | {"path": "gone.jsonl"}}
    assert "gone.jsonl, the trace of" in error(trace=gone)
    assert "its sha256 is" in error(trace=trace | {"sha256": "0" * 64})
    assert "does not say how its trace was read" in error(trace=trace | {"source": None})
    assert "was stopped by Ctrl-C" in error(partial=True)
    assert "is not a manifest of schema" in error(schema="other/1")
    assert "option 'steps' is unknown (did you mean 'step'?); choices: rate_scale," in error(
        options=manifest["options"] | {"steps": True}
    )
    for source, words in (
        ({}, "trace.source.path is missing"),
        ({"path": "a", "options": None}, "trace.source.options is None"),
    ):
        assert words in error(trace=trace | {"source": source})
    assert "manifest.json is not the manifest of a run: seed is '0'" in error(seed="0")
    trace.pop("sha256")
    assert "is not the manifest of a run: trace.sha256 is missing" in error()
    trace["sha256"] = ""
    (tmp_path / "run" / "requests.parquet").unlink()
    assert "is not a whole run of kvsim: it has no requests.parquet" in error()
    manifest_path.write_text("{")
    assert main(["explain", str(tmp_path / "run")]) == 2
    assert "is not the manifest of a run" in capsys.readouterr().err
    assert main(["explain", str(tmp_path)]) == 2
    assert "it has no manifest.json; kvsim simulate writes one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "num_explained"),
    [
        ((), 7),
        (("--timeout", "200ms"), 7),
        (("--scenario", "sglang-0.5"), 7),
        (("--scenario", "vllm-v0"), 3),
    ],
)
def test_samples_are_explained_one_by_one(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    num_explained: int,
) -> None:
    trace, folder = tmp_path / "samples.csv", tmp_path / "run"
    trace.write_text(
        "arrival_ns,prompt_tokens,output_tokens,num_samples\n0,100,9,4\n0,5000,9,2\n9000,33,1,1\n"
    )
    assert main(["simulate", str(trace), "--out", str(folder), *options]) == 0
    summary = json.loads((folder / "summary.json").read_text())
    found = explained(folder, capsys)
    assert found["hits"]["prompt_tokens"] == summary["cache"]["prompt_tokens"]
    assert found["hits"]["parts"]["hit"] == summary["cache"]["hit_tokens"]
    assert found["ttft"]["all"]["requests"] == num_explained
