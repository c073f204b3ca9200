"""Imports run one way, and what is slow to import is imported where it is used.

``traces <- policies <- sim <- calibrate <- cli``, with ``kernels`` beside (see CONTRIBUTING.md).
The rules are applied to the syntax tree, so nothing is imported to check them.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT = {
    "traces": {"traces"},
    "policies": {"policies", "traces"},
    "sim": {"sim", "policies", "traces"},
    "kernels": {"kernels"},
    "calibrate": {"calibrate", "kernels", "sim", "policies", "traces"},
    "cli": {"cli", "calibrate", "kernels", "sim", "policies", "traces"},
}
LIGHT_FOLDERS = {"traces", "policies", "sim", "cli"}
HEAVY = {"pandas", "scipy", "plotly", "torch", "triton", "pyarrow", "numba", "dask", "distributed"}
GPU = {"torch", "triton", "flashinfer"}
KERNELS_MAY_IMPORT = GPU | {"numpy", "scipy"}
WITHOUT_SIMPY = {"sim/engine/stepper.py", "sim/leaping/leaper.py"}
MEASURING = "calibrate/measure/"
"""Runs on a bare GPU image: imports what the kernels may, and the kernels."""
MEASURES_WITH = ("kvsim.kernels.", "kvsim.calibrate.measure.")


class Import(NamedTuple):
    """One imported module; ``eager`` when importing the file imports it."""

    line: int
    module: str
    eager: bool


class _Imports(ast.NodeVisitor):
    """Collects imports; relative ones keep their leading dots."""

    def __init__(self) -> None:
        self.found: list[Import] = []
        self._eager = True

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.found.append(Import(node.lineno, alias.name, self._eager))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            self.found.append(Import(node.lineno, f"{base}.{alias.name}", self._eager))

    def visit_If(self, node: ast.If) -> None:
        types_only = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for child in node.body:
            if types_only:
                self._lazily(child)
            else:
                self.visit(child)
        for child in node.orelse:
            self.visit(child)

    def generic_visit(self, node: ast.AST) -> None:
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if inside and self._eager:
            self._lazily(node)
        else:
            super().generic_visit(node)

    def _lazily(self, node: ast.AST) -> None:
        before, self._eager = self._eager, False
        self.visit(node)
        self._eager = before


def violations(file: str, source: str) -> list[str]:
    """Sentences about the broken rules in ``source``, the text of ``file`` (``folder/name.py``)."""
    visitor = _Imports()
    visitor.visit(ast.parse(source))
    folder = file.split("/", maxsplit=1)[0]
    wrong = []
    for line, module, eager in visitor.found:
        top = module.split(".")[0]
        where = f"{file}:{line}: "
        if module.startswith("."):
            wrong.append(f"{where}relative import of {module}")
        elif top in MAY_IMPORT:
            wrong.append(f"{where}{module} without kvsim. in front")
        elif top == "kvsim":
            if (target := module.split(".")[1]) not in MAY_IMPORT[folder]:
                wrong.append(f"{where}{folder} may not import kvsim.{target}")
            elif file.startswith(MEASURING) and not module.startswith(MEASURES_WITH):
                wrong.append(f"{where}measuring may not import {module}")
        else:
            wrong += [where + rule for rule in _about_others(file, top, eager=eager)]
    return wrong


def _about_others(file: str, top: str, *, eager: bool) -> list[str]:
    folder = file.split("/", maxsplit=1)[0]
    wrong = []
    if top in GPU and not (folder == "kernels" or (folder == "calibrate" and not eager)):
        wrong.append(f"{top} belongs to kernels/ (and inside functions of calibrate/)")
    elif top in HEAVY and folder in LIGHT_FOLDERS and eager:
        wrong.append(f"{top} is slow to import: import it in the function that needs it")
    bare = folder == "kernels" or file.startswith(MEASURING)
    if bare and top not in KERNELS_MAY_IMPORT | sys.stdlib_module_names:
        allowed = ", ".join(sorted(KERNELS_MAY_IMPORT))
        wrong.append(f"kernels and measuring may import {allowed} only, not {top}")
    if top == "simpy" and file in WITHOUT_SIMPY:
        wrong.append("engines know no SimPy: the driver does")
    return wrong


def _files() -> list[Path]:
    return sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", _files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    assert violations(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) == []


FAULTS = [
    ("traces/a.py", "from kvsim.sim import simulate", "traces may not import kvsim.sim"),
    ("traces/a.py", "from kvsim import policies", "traces may not import kvsim.policies"),
    ("policies/a.py", "import kvsim.sim.cost.step_cost", "policies may not import kvsim.sim"),
    ("sim/a.py", "def f():\n    from kvsim.cli import main", "sim may not import kvsim.cli"),
    ("sim/a.py", "if TYPE_CHECKING:\n    import kvsim.calibrate", "may not import kvsim.calibrate"),
    ("kernels/a.py", "import kvsim.sim", "kernels may not import kvsim.sim"),
    ("calibrate/a.py", "import kvsim.cli", "calibrate may not import kvsim.cli"),
    ("sim/a.py", "from . import cost", "relative import"),
    ("sim/a.py", "from .cost import LinearCost", "relative import"),
    ("sim/a.py", "from traces import Trace", "without kvsim. in front"),
    ("sim/a.py", "def f():\n    import torch", "torch belongs to kernels"),
    ("calibrate/a.py", "import torch", "torch belongs to kernels"),
    ("kernels/a.py", "import pandas", "not pandas"),
    ("calibrate/measure/a.py", "def f():\n    import pandas", "not pandas"),
    (
        "calibrate/measure/a.py",
        "import kvsim.sim.cost.step_cost",
        "measuring may not import kvsim.sim.cost.step_cost",
    ),
    ("calibrate/measure/a.py", "from kvsim.calibrate import fit", "may not import kvsim.calibrate"),
    ("cli/a.py", "import pandas as pd", "pandas is slow"),
    ("cli/a.py", "try:\n    import plotly.graph_objects\nexcept ImportError:\n    pass", "plotly"),
    ("policies/a.py", "from scipy import stats", "scipy is slow"),
    ("sim/a.py", "class A:\n    import pyarrow.parquet as pq", "pyarrow is slow"),
    ("sim/a.py", "if not TYPE:\n    pass\nelse:\n    import pandas", "pandas is slow"),
    ("sim/engine/stepper.py", "import simpy", "engines know no SimPy"),
]


@pytest.mark.parametrize(("file", "source", "message"), FAULTS)
def test_a_fault_is_seen(file: str, source: str, message: str) -> None:
    (wrong,) = violations(file, source)
    assert message in wrong


def test_what_is_allowed() -> None:
    allowed = {
        "sim/a.py": "if TYPE_CHECKING:\n    import pandas\ndef f():\n    import pyarrow",
        "kernels/a.py": "import torch, triton, numpy, json\nfrom kvsim.kernels import timing",
        "calibrate/a.py": "from kvsim.kernels import timing\ndef f():\n    import torch",
        "cli/a.py": "import argparse\nfrom kvsim.sim import cost",
        "sim/engine/driver.py": "import simpy\nfrom kvsim.policies import allocators",
    }
    assert [line for file, text in allowed.items() for line in violations(file, text)] == []
