"""``kvsim calibrate`` end to end on a device that is made up, and its refusals."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate import calibration
from kvsim.cli.main import main
from kvsim.sim.cost.profile_file import load_profile
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.calibrate.measure.conftest import FakeDevice

COMMAND = ("calibrate", "--device", "cpu", "--model", "qwen2.5-0.5b", "--dtype", "bf16", "--quick")


@pytest.fixture(autouse=True)
def _on_the_fake_device(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration, "KernelBench", lambda *_, **__: device)
    monkeypatch.setattr(calibration, "timer_of", lambda _: device)


def test_the_dry_run_measures_nothing(
    device: FakeDevice, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*COMMAND, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (total,) = [line for line in lines if line.startswith("all, with anchors")]
    assert "78" in total
    assert len(device.measured) == 4, "the probes"
    assert list(tmp_path.iterdir()) == []


def test_the_profile_is_written_printed_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(list(COMMAND)) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.split("profile: ")[0].splitlines())) <= 80
    for words in ("a2", "of bandwidth", "of peak", "condition numbers", "copy, one piece",
                  "contiguous 0.800", "decode attention", "spread of repeats",
                  "none of 390 repeats was taken again"):  # fmt: skip
        assert words in out
    assert "warning" not in out
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]
    profile = load_profile(tmp_path / "profile.json")
    assert profile.model.name == "qwen2.5-0.5b"
    assert main(["calibrate", "report", "profile.json"]) == 0
    assert "page: profile.html" in capsys.readouterr().out
    assert (tmp_path / "profile.html").stat().st_size > 10_000


def test_simulate_takes_the_profile_as_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    """Cost and card both come from the file, and steps outside its range are counted."""
    assert main(list(COMMAND)) == 0
    capsys.readouterr()
    trace = ("simulate", str(bundled_path("chat-2k")), "--limit", "20", "--out", "run", "--json")
    assert main([*trace, "--hardware", "profile.json", "--model", "qwen2.5-0.5b"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert "measured on this device" in json.dumps(summary)


def test_an_interrupted_session_goes_on(
    device: FakeDevice, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = device.workload

    def impatient(point: object) -> object:
        if len(device.measured) == 40:
            device.measured.clear()
            raise KeyboardInterrupt
        return plain(point)  # type: ignore[arg-type]

    device.workload = impatient  # type: ignore[method-assign, assignment]
    assert main(list(COMMAND)) == 130
    assert "the same command goes on from profile.json.points" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json.points"]
    device.workload = plain  # type: ignore[method-assign]
    assert main(list(COMMAND)) == 0
    assert "goes on with the points in profile.json.points" in capsys.readouterr().err
    assert len(device.measured) == 4 + 78 - 36, "probes, and what was missing: 36 were there"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "qwen"], "is neither a file nor a bundled model (did you mean "),
        (["--model", "qwen3-30b-a3b"], "128 routed experts"),
        (["--dtype", "int4"], "--dtype 'int4' is not measured; choices: bf16, fp16, fp32"),
        (["--max-context", "200"], "max_context is 200; it must be at least 512"),
        (["--max-drift", "0"], "--max-drift is 0 %; it must be above 0 and finite"),
        (["--max-drift", "-1"], "--max-drift is -1 %; it must be above 0 and finite"),
        (["--max-drift", "inf"], "--max-drift is inf %; it must be above 0 and finite"),
        (["--seed", "-1"], f"--seed is -1; allowed are whole numbers from 0 to {2**63 - 1}"),
        (["--seed", str(2**63)], f"--seed is {2**63}; allowed are whole numbers from 0 to"),
        (["--out", "there.json"], "there.json exists: remove it, or give another --out"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "there.json").write_text("{}")
    assert main([*COMMAND, *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("kvsim: ")
    assert err.count("\n") == 1


def test_a_shipped_profile_has_nothing_to_draw(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "report", "h100-sxm"]) == 2
    err = capsys.readouterr().err
    for words in ("h100-sxm is a shipped profile", "docs/calibration.md", "kvsim calibrate wrote"):
        assert words in err
    assert err.count("\n") == 1


def test_a_drifting_clock_is_told_on_the_command_line(
    device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    device.slowness = lambda fake: 1.0 + 0.01 * len(fake.measured)
    assert main(list(COMMAND)) == 2
    assert "kvsim: the clock drifts" in capsys.readouterr().err


def test_a_machine_that_is_slow_at_times_is_told(
    device: FakeDevice, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    device.slowness = lambda fake: 1.9 if fake.now_us % 40_000 < 8_000 else 1.0
    assert main(list(COMMAND)) == 0
    found = re.search(r"steadiness +(\d+) of (\d+) repeats \((\S+) %\)", capsys.readouterr().out)
    assert found
    lost, taken, percent = map(float, found.groups())
    rows = load_profile(tmp_path / "profile.json").measurement["points"]
    assert lost == sum(row["discarded"] for row in rows) > 10
    assert taken == lost + 390
    assert percent == pytest.approx(100 * lost / taken, abs=0.1)
    assert main(["calibrate", "report", "profile.json"]) == 0
    assert f"{lost:.0f} of {taken:.0f} repeats" in (tmp_path / "profile.html").read_text()


def test_raw_points_that_cannot_be_written_are_told_before_any_work(
    device: FakeDevice, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    points = tmp_path / "profile.json.points"
    points.symlink_to(points)
    assert main(list(COMMAND)) == 2
    assert capsys.readouterr().err.endswith(
        "profile.json.points is a link that leads to itself: name a file\n"
    )
    assert not device.measured
    assert list(tmp_path.iterdir()) == [points]
