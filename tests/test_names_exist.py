"""Names of modules and paths that stand in text: each names something that is there.

Lint and type overrides, package data, pages of the reference, tests, benchmarks and docstrings name
modules and files. A name that a move left behind is wrong in silence (an override that overrides
nothing), so every name is looked up.
"""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("traces", "policies", "sim", "kernels", "calibrate", "cli")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "examples")
TEXTS = {".py", ".md", ".toml", ".yml"}
NOT_READ = {"CHANGES.md", "tests/test_names_exist.py"}
"""The history names what was there; this file plants names that are not."""

_DOTTED = re.compile(r"(?<![\w./@-])kvsim(?:\.[A-Za-z_]\w*)+(?![\w*/-])")
_PATH = re.compile(rf"(?<![\w./<>-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)(?![\w*<>{{}}])")
_SUFFIXES = (".py", ".toml", ".md", ".txt", ".css", ".js", ".html", ".svg")
MADE_UP = re.compile(r"/(a|s|gateway)\.(py|svg)$|^examples/\w+\.md$")
"""Files that rules and walk-throughs name as examples, and pages made of examples."""
THEIRS = {"benchmarks/serve.py"}
"""Files of other projects."""


@cache
def tracked() -> tuple[str, ...]:
    """Files that git knows or would add; all files where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    found = listed if len(listed) > 1 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")]
    return tuple(name for name in found if name and (ROOT / name).is_file())


@cache
def modules() -> dict[str, Path]:
    """File of each module and package by its dotted name."""
    return {
        "kvsim." + name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): ROOT / name
        for name in tracked()
        if name.endswith(".py") and name.split("/")[0] in PACKAGES
    }


def _bound(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Names that statements bind, those under ``if`` and ``try`` included, by what binds them."""
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.If | ast.Try | ast.With):
            found |= _bound([child for child in ast.iter_child_nodes(node) if _is_stmt(child)])
        else:
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            found |= {n.id: node for n in names if isinstance(n.ctx, ast.Store)}
    return found


def _is_stmt(node: ast.AST) -> TypeGuard[ast.stmt]:
    return isinstance(node, ast.stmt)


@cache
def defined(module: str) -> dict[str, ast.stmt]:
    """Names at the top level of a module."""
    return _bound(ast.parse(modules()[module].read_text("utf-8")).body)


def is_there(dotted: str, *, patched: bool = False) -> bool:
    """Whether ``kvsim.a.b.C.d`` is a module, or what one defines; of a class's parts any goes.

    ``patched``: tests replace a name where it is used, so one that a module imports goes, too.
    """
    module, rest = dotted, ""
    while module not in modules():
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}".rstrip(".")
        if not module:
            return dotted.split(".")[1] not in PACKAGES
    if not rest or module == "kvsim":
        return True
    name, _, part = rest.partition(".")
    owner = defined(module).get(name)
    imported = isinstance(owner, ast.ImportFrom) and modules()[module].name != "__init__.py"
    if imported and not patched:
        return False  # its home is elsewhere: say that
    return owner is not None and (not part or not isinstance(owner, ast.FunctionDef))


def stale(name: str, text: str) -> list[str]:
    """Sentences on the names in ``text`` (of the file ``name``) that name nothing."""
    wrong = [
        f"{name}: {dotted} is not there"
        for dotted in sorted(set(_DOTTED.findall(text)))
        if not MADE_UP.search(f"{dotted.replace('.', '/')}.py")
        and not is_there(dotted, patched=name.startswith("tests/"))
    ]
    for path in sorted({found.rstrip(".") for found in _PATH.findall(text)}):
        if path.endswith(_SUFFIXES) and path not in THEIRS and not MADE_UP.search(path):
            homes = (ROOT / path, ROOT / name.rpartition("/")[0] / path)
            if not any(home.exists() for home in homes):
                wrong.append(f"{name}: {path} is not there")
    return wrong


@pytest.mark.parametrize(
    "name", [n for n in tracked() if Path(n).suffix in TEXTS and n not in NOT_READ]
)
def test_every_name_is_there(name: str) -> None:
    assert stale(name, (ROOT / name).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("pyproject.toml", 'module = ["kvsim.kernels.triton_gone", "triton.*"]', 1),
        ("pyproject.toml", '"sim/old.py" = ["D100"]', 1),
        ("mkdocs.yml", "handler: kvsim.sim.gone", 1),
        ("docs/api/sim.md", "::: kvsim.sim.run.run.emulate", 1),
        ("docs/api/sim.md", "::: kvsim.sim.run.run.simulate", 0),
        ("benchmarks/run.py", "# as sim/engine/walker.py does", 1),
        ("tests/test_import_direction.py", 'WITHOUT_SIMPY = {"sim/leaper.py"}', 1),
        ("sim/engine/driver.py", '"""See :mod:`~kvsim.sim.leap`."""', 1),
        ("sim/engine/__init__.py", "The door is :func:`~kvsim.sim.engine.driver.run`.", 1),
        ("sim/metrics/__init__.py", ":func:`~kvsim.sim.metrics.summary.summarise`", 1),
        ("README.md", "The loop is in `sim/engine/driver.py`.", 0),
    ],
)
def test_a_planted_name_is_seen(name: str, text: str, number: int) -> None:
    assert len(stale(name, text)) == number
