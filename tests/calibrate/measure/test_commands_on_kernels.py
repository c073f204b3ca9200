"""The commands that measure, on real kernels of a tiny model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.sim.cost.profile_file import load_profile

if TYPE_CHECKING:
    from pathlib import Path

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 211,
    "max_position_embeddings": 2048,
    "torch_dtype": "float32",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile that was measured where torch, numpy, scipy and kvsim itself are all there is."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "config.json").write_text(json.dumps(TINY))
    lacking = "pandas plotly pyarrow simpy tqdm shtab zstandard"
    program = (
        "import sys\n"
        f"for name in {lacking.split()}: sys.modules[name] = None\n"
        "from kvsim.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [
            sys.executable, "-P", "-c", program, "calibrate", "--device", "cpu", "--quick",
            "--model", "config.json", "--max-batch", "4", "--max-context", "600",
            "--max-step-tokens", "128", "--max-drift", "1e6",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--hardware profile.json --model config.json" in done.stdout
    return folder


@pytest.mark.slow
def test_a_bare_image_is_enough_to_calibrate(folder: Path) -> None:
    profile = load_profile(folder / "profile.json")
    assert profile.measured.batch == (1, 4)
    assert profile.model.hidden_size == 64
    assert min(row["median_us"] for row in profile.measurement["points"]) > 0


@pytest.mark.slow
def test_validate_local_puts_real_beside_simulated(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = ["validate", "local", "profile.json", "--model", "config.json", "--device", "cpu"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    for words in ("mean step", "mean TPOT", "preemptions", "each real step", "steady steps"):
        assert any(line.startswith(words) for line in lines)
    assert re.search(r"the anchor was as fast as ever .* (run was|runs were) repeated", shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--requests", "1"], "--requests is 1; it must be at least 2"),
        (["--model", ""], "which is not bundled: give its config.json (--model)"),
        (["--seed", "-1"], f"--seed is -1; allowed are whole numbers from 0 to {2**63 - 1}"),
        (["--seed", str(2**63)], f"allowed are whole numbers from 0 to {2**63 - 1}"),
    ],
)
def test_what_validate_local_cannot_do_is_refused(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    command = ["validate", "local", "profile.json", "--model", "config.json", "--device", "cpu"]
    assert main([*command, *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_the_cache_lab_prints_and_draws(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    lab = ["calibrate", "cache-lab", "--device", "cpu", "--model", "config.json"]
    assert main([*lab, "--max-context", "256", "--profile", "profile.json"]) == 0
    out = capsys.readouterr().out
    for words in ("256 tokens", "batch 16, 256", "turn, all layers", "page: cache-lab.html"):
        assert words in out
    assert (folder / "cache-lab.html").stat().st_size > 10_000


def test_a_package_that_a_bare_image_lacks_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ("plotly.graph_objects", "plotly.offline", "plotly.subplots"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["calibrate", "report", "profile.json"]) == 2
    assert "this needs plotly, which is not installed here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", "0"], "--layers is 0; tiny"),
        (["--layers", "3"], "--layers is 3; tiny"),
        (["--max-context", "100"], "--max-context is 100; it must be at least 256"),
        (["--dtype", "fp8"], "--dtype 'fp8' is not measured"),
    ],
)
def test_what_the_cache_lab_cannot_do_is_refused(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    lab = ["calibrate", "cache-lab", "--device", "cpu", "--model", "config.json", "--layers", "1"]
    assert main([*lab, *arguments]) == 2
    assert message in capsys.readouterr().err
