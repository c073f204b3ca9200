"""Examples in README.md and docs/ are run, each page's in order, in a folder with the samples.

``python`` blocks of a page share one namespace. A block whose first line is ``# NAME.py`` is also a
file of that name in the folder, as readers are asked to save it. In ``console`` blocks a
``$ kvsim ...`` line is run and must succeed (one that ends with a backslash goes on in the next);
lines under it, if any, are its standard output (``...`` matches anything). Those of the pages under
docs/ are ``slow``.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvsim.cli.main import COMMANDS as COMMAND_MODULES
from kvsim.policies.allocators.base import Allocator
from kvsim.policies.batching import Batching
from kvsim.policies.eviction import EvictionOrder
from kvsim.policies.queue_order import QueueOrder
from kvsim.sim.conformance.policy_check import check_policy, find_kind

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = (
    "pip install -e . && kvsim simulate traces/data/chat-2k.jsonl.gz",
    "pip install -e '.[test]' && pytest",
)


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Fenced blocks of ``language`` in a page: line number of the first line, and the text."""
    matches = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in matches]


def commands(block: str) -> list[tuple[str, str]]:
    """``$`` lines of a console block, each with the output shown under it."""
    parts = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(line, output.rstrip("\n")) for line, _, output in (p.partition("\n") for p in parts)]


def save_files(text: str) -> None:
    """Write the python blocks of a page that begin with a file name to the current folder."""
    for _, block in blocks(text, "python"):
        if found := re.match(r"# (\w+\.py)\n", block):
            Path(found[1]).write_text(block, "utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, but for the bundled traces and examples."""
    for name in ("traces/data", "examples"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.usefixtures("folder")
def test_python_blocks_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__page__"}
    save_files(page.read_text("utf-8"))
    for line, block in blocks(page.read_text("utf-8"), "python"):
        exec(compile("\n" * (line - 1) + block, page, "exec"), names)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.parent.name == "docs" else ())
        for page in PAGES
    ],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_console_blocks_run(page: Path, folder: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    save_files(page.read_text("utf-8"))
    for line, block in blocks(page.read_text("utf-8"), "console"):
        for command, want in commands(block):
            program, *arguments = shlex.split(command)
            if program != "kvsim":
                continue
            done = subprocess.run(
                [sys.executable, "-P", "-m", "kvsim.cli", *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{page.name}:{line}: {command}\n{done.stderr}"
            if want:
                same = doctest.OutputChecker().check_output(want + "\n", done.stdout, flags)
                assert same, f"{page.name}:{line}: {command} now prints\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_has_the_commands_that_ci_runs(command: str) -> None:
    assert command in (ROOT / "README.md").read_text("utf-8")
    assert command in (ROOT / ".ci" / "run").read_text("utf-8")


def test_a_page_names_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    for module in COMMAND_MODULES:
        name = module.__name__.removesuffix(".command").rpartition(".")[2]
        assert f"`kvsim {name}" in page
    for what in ("info", "reuse", "convert", "sample", "slice", "synth", "fetch"):
        assert re.search(rf"^\| `kvsim trace .*\b{what}\b", page, re.MULTILINE), what


def test_a_page_is_split_into_blocks() -> None:
    page = "text\n```python\na = 1\n```\n```console\n$ kvsim x\nout\n\nmore\n$ kvsim y\n```\n"
    assert blocks(page, "python") == [(3, "a = 1\n")]
    ((line, block),) = blocks(page, "console")
    assert line == 6
    assert commands(block) == [("kvsim x", "out\n\nmore"), ("kvsim y", "")]


def test_a_block_with_a_file_name_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_files("```python\n# my_x.py\na = 1\n```\n```python\n# no name.py\nb = 2\n```\n")
    assert [path.name for path in tmp_path.iterdir()] == ["my_x.py"]
    assert (tmp_path / "my_x.py").read_text("utf-8") == "# my_x.py\na = 1\n"


WRITTEN = {
    "eviction": ("my_eviction:Clock", EvictionOrder),
    "queue-order": ("my_queue:TwoLanes", QueueOrder),
    "batching": ("my_batching:DecodeFirst", Batching),
    "allocator": ("my_allocator:PowersOfTwo", Allocator),
}
"""By page on how to write a policy: its example, and the contract that it explains."""


@pytest.mark.parametrize("page", WRITTEN)
@pytest.mark.usefixtures("folder")
def test_the_policy_of_a_page_keeps_the_rules(page: str) -> None:
    save_files((ROOT / "docs" / f"write-{page}.md").read_text("utf-8"))
    name, _ = WRITTEN[page]
    assert [one.fault for one in check_policy(find_kind(name), name, num_runs=10)] == [""] * 3


def undescribed(contract: type, text: str) -> set[str]:
    """Members of a contract that no row of a table in a page begins with."""
    members = {name for name in vars(contract) if not name.startswith("_")}
    members |= {name for name in vars(contract).get("__annotations__", ()) if name[0] != "_"}
    return {name for name in members if not re.search(rf"^\| `{name}\b", text, re.MULTILINE)}


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_on_a_kind_describes_its_contract(page: str) -> None:
    text = (ROOT / "docs" / f"write-{page}.md").read_text("utf-8")
    _, contract = WRITTEN[page]
    assert undescribed(contract, text) == set()


def test_a_member_that_a_page_forgets_is_found() -> None:
    text = (ROOT / "docs" / "write-allocator.md").read_text("utf-8")
    assert undescribed(Allocator, text) == set()
    assert undescribed(Allocator, text.replace("| `grow(", "| `shrink(")) == {"grow"}
    assert undescribed(Allocator, text.replace("| `relocations`", "|")) == {"relocations"}
