"""The rooms of the house: each imports lower rooms only, holds few modules, and says what it is.

A room is a folder of a package (``sim/engine``) with its sub-folders, or what lies in the package's
root (``traces``: the doors). All imports count, those for types and those inside functions, too.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ROOMS = (
    "traces/common",
    "traces/trace",
    "traces/reading",
    "traces/adjust",
    "traces/formats",
    "traces",
    "traces/synth",
    "traces/reuse",
    "policies",
    "sim/hardware",
    "sim/models",
    "sim/documents",
    "sim/folders",
    "sim/pool",
    "sim/cost",
    "sim/recording",
    "sim/scenario",
    "sim/engine",
    "sim/metrics",
    "sim/leaping",
    "sim/report",
    "sim/block_map",
    "sim/run",
    "sim/comparison",
    "sim/conformance",
    "sim/explain",
    "sim",
    "kernels",
    "calibrate/measure",
    "calibrate/sources",
    "calibrate/fit",
    "calibrate/engine_logs",
    "calibrate/validate",
    "calibrate",
    "cli/text",
    "cli/options",
    "cli/commands",
    "cli/trace",
    "cli/calibrate",
    "cli/validate",
    "cli/ui",
    "cli",
)
"""From the ground floor up. ``policies`` is one room: its seams name each other's contracts."""
WHOLE = {"policies", "kernels"}
PACKAGES = ("traces", "policies", "sim", "kernels", "calibrate", "cli")

UPWARDS = {
    # charts of a run take the run as a type; Run.save, Run.plot and notebooks import them late
    ("sim/report/facts.py", "kvsim.sim.run.run"),
    ("sim/report/notebook.py", "kvsim.sim.run.run"),
    ("sim/report/run_page.py", "kvsim.sim.run.run"),
    ("sim/report/run_plots.py", "kvsim.sim.run.run"),
    # the completion script is made from the parser of all commands
    ("cli/commands/completion.py", "kvsim.cli.main"),
}
"""(file, module) of the imports that run upwards, each with its reason."""

MOST_MODULES = 20
MOST_IN_ROOT = {"sim": 3}
ONE_FILE_A_FORMAT = "traces/formats"


def room_of(file: str) -> str:
    """Return the room of ``file`` (``package/.../name.py``)."""
    package, *inner = file.split("/")
    return package if package in WHOLE or len(inner) == 1 else f"{package}/{inner[0]}"


@cache
def files() -> tuple[str, ...]:
    """All modules, as paths from the root."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


@cache
def modules() -> dict[str, str]:
    """File of each module by its dotted name."""
    return {
        "kvsim." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file
        for file in files()
    }


def imported(source: str) -> list[tuple[int, str]]:
    """Line and dotted name of each import of ``source``, wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def module_of(name: str) -> str | None:
    """Return the longest module name that ``name`` starts with; ``None`` for others' modules."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


def upward(file: str, source: str) -> list[tuple[int, str]]:
    """Line and module of each import of ``source`` from a higher room than that of ``file``."""
    here = ROOMS.index(room_of(file))
    found = []
    for line, name in imported(source):
        module = module_of(name)
        if module is not None and ROOMS.index(room_of(modules()[module])) > here:
            found.append((line, module))
    return found


def test_every_room_has_its_floor() -> None:
    assert {room_of(file) for file in files()} == set(ROOMS)
    assert len(set(ROOMS)) == len(ROOMS)


def test_rooms_import_lower_rooms_only() -> None:
    wrong = [
        f"{file}:{line}: {room_of(file)} is below {room_of(modules()[module])} ({module})"
        for file in files()
        for line, module in upward(file, (ROOT / file).read_text("utf-8"))
        if (file, module) not in UPWARDS
    ]
    assert wrong == []


def test_each_exception_is_needed() -> None:
    needed = {
        (file, module)
        for file in {file for file, _ in UPWARDS}
        for _, module in upward(file, (ROOT / file).read_text("utf-8"))
    }
    assert needed == UPWARDS


@pytest.mark.parametrize(
    ("file", "source", "module"),
    [
        ("sim/cost/a.py", "from kvsim.sim.scenario.tables import Slo", "kvsim.sim.scenario.tables"),
        (
            "sim/engine/a.py",
            "if TYPE_CHECKING:\n    from kvsim.sim.leaping.leaper import Leaper",
            "kvsim.sim.leaping.leaper",
        ),
        ("traces/trace/a.py", "def f():\n    import kvsim.traces.read", "kvsim.traces.read"),
        ("traces/common/a.py", "from kvsim.traces import Trace", "kvsim.traces"),
        ("cli/text/a.py", "from kvsim.cli import main", "kvsim.cli.main"),
        ("sim/hardware/a.py", "from kvsim.sim import simulate", "kvsim.sim"),
        ("policies/a.py", "import kvsim.sim.engine.stepper", "kvsim.sim.engine.stepper"),
    ],
)
def test_a_planted_import_is_seen(file: str, source: str, module: str) -> None:
    assert [found for _, found in upward(file, source)] == [module]


def too_full(names: list[str]) -> list[str]:
    """Folders of ``names`` with too many modules, ``__init__.py`` not counted."""
    count = Counter(str(Path(file).parent) for file in names if not file.endswith("__init__.py"))
    return [
        f"{folder} holds {number} modules"
        for folder, number in sorted(count.items())
        if number > MOST_IN_ROOT.get(folder, MOST_MODULES) and folder != ONE_FILE_A_FORMAT
    ]


def test_no_folder_is_too_full() -> None:
    assert too_full(list(files())) == []
    assert too_full([f"sim/cost/{number}.py" for number in range(21)]) == [
        "sim/cost holds 21 modules"
    ]
    assert too_full([f"sim/{number}.py" for number in range(4)]) == ["sim holds 4 modules"]


def says_what_it_is(source: str) -> bool:
    """Whether a folder's docstring says its idea and, in a second paragraph, its door."""
    text = ast.get_docstring(ast.parse(source)) or ""
    return len([part for part in text.split("\n\n") if part.strip()]) > 1


@pytest.mark.parametrize("file", [file for file in files() if file.endswith("__init__.py")])
def test_each_folder_says_what_it_is(file: str) -> None:
    assert says_what_it_is((ROOT / file).read_text("utf-8"))


def test_a_folder_that_says_too_little_is_seen() -> None:
    assert not says_what_it_is('"""Charts."""')
    assert says_what_it_is('"""Charts of a run.\n\nThe door is ``page``."""')
