"""Policies in ``examples/`` run as their first lines say and keep the rules of their kind; scripts
in cells (``# %%``), which Jupyter opens, run from the first to the last. All stay short.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kvsim.cli.main import main
from kvsim.sim.conformance.policy_check import check_policy, find_kind

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
IN_CELLS = [path for path in SCRIPTS if path.read_text(encoding="utf-8").startswith("# %%")]
EXAMPLES = [path for path in SCRIPTS if path not in IN_CELLS]
TRACE = str(ROOT / "traces" / "data" / "chat-2k.jsonl.gz")
FEW = ("simulate", TRACE, "--limit", "40", "--json")
SETTING = re.compile(r"--set (\S+=(examples\.(\w+):\w+))$", re.MULTILINE)


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the examples' commands are given in; nothing stays imported."""
    monkeypatch.chdir(ROOT)
    for name in [name for name in sys.modules if name.split(".")[0] == "examples"]:
        monkeypatch.delitem(sys.modules, name)


@cache
def usual_requests() -> object:
    """What the engine's own policies make of the trace."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(list(FEW)) == 0
    return json.loads(out.getvalue())["requests"]


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
    assert main([*FEW, "--set", setting]) == 0
    ours = json.loads(capsys.readouterr().out)
    assert ours["requests"] == usual_requests(), "all of them are served"
    assert not any(finding.fault for finding in check_policy(find_kind(name), name, num_runs=4))


def test_there_is_an_example_of_each_kind_that_people_write() -> None:
    kinds = {find_kind(SETTING.search(path.read_text())[2]) for path in EXAMPLES}  # type: ignore[index]
    assert kinds == {"allocator", "batching", "eviction", "queue"}


SAYS = {
    "calibrate_and_predict": r"layer .* % off .*\n(.*\n)+16 at once: .*\n 8 at.*\n 4 at ",
    "compare_allocators": r"longest reserved .*\nlength known .*\npaged .*\npaged, (.*\n)+r0299 ",
    "write_eviction": r"rules +ok\nrepeats +ok\nlength leak +ok\n(.*\n)+lru .*\nlfu .*\n__main__:",
}
"""What each script in cells prints, as a pattern."""


@pytest.mark.slow
@pytest.mark.parametrize("path", IN_CELLS, ids=lambda path: path.stem)
def test_a_script_in_cells_runs_to_its_end_and_writes_only_where_it_is_told(
    path: Path, tmp_path: Path
) -> None:
    if path.stem == "calibrate_and_predict":
        pytest.importorskip("torch")
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        [sys.executable, "-P", str(path), str(tmp_path / "out")],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(SAYS[path.stem], done.stdout), done.stdout
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("path", IN_CELLS, ids=lambda path: path.stem)
def test_a_script_in_cells_is_read_in_a_few_minutes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert text.count("# %% [markdown]") >= 3


def test_there_is_a_script_for_each_thing_that_people_come_for() -> None:
    assert [path.stem for path in IN_CELLS] == sorted(SAYS)
