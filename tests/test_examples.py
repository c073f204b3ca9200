"""Examples run as their first lines say, keep the rules of their kind, and stay short."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.sim.policy_check import check_policy, find_kind

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SETTING = re.compile(r"--set (\S+=(examples\.(\w+):\w+))$", re.MULTILINE)


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the examples' commands are given in; nothing stays imported."""
    monkeypatch.chdir(ROOT)
    for name in [name for name in sys.modules if name.split(".")[0] == "examples"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_runs_as_it_says_and_keeps_the_rules(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    found = SETTING.search(text)
    assert found is not None, "the first lines show the command"
    setting, name, module = found.groups()
    assert module == path.stem
    trace = str(ROOT / "traces" / "data" / "chat-2k.jsonl.gz")
    few = ["simulate", trace, "--limit", "200", "--json"]
    assert main(few) == 0
    usual = json.loads(capsys.readouterr().out)
    assert main([*few, "--set", setting]) == 0
    ours = json.loads(capsys.readouterr().out)
    assert ours["requests"] == usual["requests"], "all of them are served"
    assert not any(finding.fault for finding in check_policy(find_kind(name), name, num_runs=15))


def test_there_is_an_example_of_each_kind_that_people_write() -> None:
    kinds = {find_kind(SETTING.search(path.read_text())[2]) for path in EXAMPLES}  # type: ignore[index]
    assert kinds == {"allocator", "batching", "eviction", "queue"}
