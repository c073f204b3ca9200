"""Every preset on the first requests of the bundled trace, with all invariants checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.sim.scenario.preset import preset_names
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

FEW = (str(bundled_path("chat-2k")), "--limit", "25", "--rate-scale", "30")
SMALL = ("--kv-memory", "1GiB", "--max-model-len", "4096")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_runs_and_passes_its_audit(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--scenario", preset, "--audit", "--json")
    assert main(["simulate", *FEW, *SMALL, *options]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["requests"]["finished"] == 25
    assert summary["scenario"]["preset"] == preset
    assert summary["engine"]["audited"] > 0
    assert sum(summary["memory"]["all_time"]["states_percent"].values()) == pytest.approx(100)


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_is_set_up_without_other_options(preset: str) -> None:
    setup = set_up(Scenario.load(preset))
    assert not [note for note in setup.notes if "unused" in note]


def test_all_presets_are_compared_on_equal_memory(capsys: pytest.CaptureFixture[str]) -> None:
    names = ",".join(preset_names())
    options = ("--allocators", names, "--jobs", "1", "--json")
    assert main(["compare", *FEW, *SMALL, *options]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == preset_names()
    assert {row["scenario"]["engine"]["kv_memory"] for row in rows} == {"1GiB"}
