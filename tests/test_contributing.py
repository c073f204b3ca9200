"""The three walks of CONTRIBUTING.md, followed literally in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
WALKS = re.findall(r"^## (Walk .*?)\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
PACKAGES = ("traces", "policies", "sim", "calibrate", "cli", "kernels")
PASSING = ("__pycache__", "build", ".git", "*.egg-info", ".*_cache", "kvsim-runs", ".hypothesis")
"""Names of folders that no walk changes."""


def fenced(text: str) -> list[tuple[str, str]]:
    """Language and text of each fenced block, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def apply_diff(tree: Path, block: str) -> list[str]:
    """Apply the hunks of a block to the files that it names, and return their names."""
    names = []
    for name, hunk in re.findall(r"^--- (\S+)\n(.*?)(?=^--- |\Z)", block, re.MULTILINE | re.DOTALL):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        text = (tree / name).read_text("utf-8")
        assert len(re.findall(f"^{re.escape(before)}", text, re.MULTILINE)) == 1, (name, before)
        (tree / name).write_text(text.replace(f"\n{before}", f"\n{after}"), "utf-8")
        names.append(name)
    return names


def save_file(tree: Path, block: str) -> list[str]:
    """Write a block to the file that its first line names; Python keeps that line."""
    first, _, rest = block.partition("\n")
    name = first.removeprefix("# ")
    (tree / name).write_text(block if name.endswith(".py") else rest, "utf-8")
    return [name]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the repository, beside a folder that maps its packages to ``kvsim``."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*PASSING), symlinks=True)
    (tmp_path / "lib/kvsim").mkdir(parents=True)
    for package in PACKAGES:
        (tmp_path / "lib/kvsim" / package).symlink_to(copy / package)
    return copy


def run(tree: Path, line: str) -> subprocess.CompletedProcess[str]:
    program, *words = line.split()
    module = {"python": [], "pytest": ["-m", "pytest", "-n", "0", "-q", "-m", "not slow"]}
    start = module.get(program, ["-m", "kvsim.cli"])
    lib = os.pathsep.join([str(tree.parent / "lib"), str(tree)])
    return subprocess.run(
        [sys.executable, *start, *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": lib, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def read_versions(tree: Path) -> dict[str, bytes]:
    """Contents of all text files of a copy."""
    kinds = {".py", ".md", ".csv"}
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in tree.rglob("*")
        if path.suffix in kinds and not {"kvsim-runs", ".pytest_cache"} & set(path.parts)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("title", "text"), WALKS, ids=[title for title, _ in WALKS])
def test_a_walk_works_as_written(tree: Path, title: str, text: str) -> None:
    before, changed, commands = read_versions(tree), set[str](), list[str]()
    for language, block in fenced(text):
        if language == "sh":
            commands += block.replace("\\\n", " ").splitlines()
        else:
            changed |= set((apply_diff if language == "diff" else save_file)(tree, block))
    for line in commands:
        done = run(tree, line)
        assert done.returncode == 0, (line, done.stdout[-3000:], done.stderr[-3000:])
    after = read_versions(tree)
    table = text.split("| --- | --- |\n")[1].split("\n\n", 1)[0]
    cells = [row.split("|")[1] for row in table.splitlines()]
    listed = {name for cell in cells for name in re.findall(r"`(.*?)`", cell)}
    assert listed == {name for name, content in after.items() if before.get(name) != content}
    assert changed <= listed


@pytest.mark.slow
def test_a_walk_without_its_rule_is_red(tree: Path) -> None:
    tests = next(block for language, block in fenced(WALKS[0][1]) if language == "diff")
    apply_diff(tree, tests)
    done = run(tree, "pytest tests/policies/test_eviction.py")
    assert done.returncode == 1, done.stdout
    assert "test_every_order_is_listed_here" in done.stdout


def test_there_are_three_walks() -> None:
    assert [title for title, _ in WALKS] == [
        "Walk 1: an eviction policy",
        "Walk 2: a trace format",
        "Walk 3: a metric",
    ]
