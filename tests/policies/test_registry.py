"""Policies by name: built-ins, plug-ins of installed packages, and modules of one's own."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.policies import registry
from kvsim.policies.context import PolicyContext
from kvsim.policies.registry import Registry, build, load_policy
from kvsim.policies.scheduler_config import SchedulerConfig

if TYPE_CHECKING:
    from pathlib import Path

KIND: Registry[object] = Registry("victim", {"first": min, "last": max})


class Truth:
    def num_outputs(self, index: int) -> int:
        return 3

    def num_slots(self, index: int) -> int:
        return 9


class Blind:
    def __init__(self, context: PolicyContext) -> None:
        self.truth = context.truth


class Seer(Blind):
    uses_oracle = True


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, under a name that no other test uses."""
    monkeypatch.chdir(tmp_path)
    name = f"own_{tmp_path.name}".replace("-", "_")
    lines = ["class Nest:", "    best = staticmethod(min)", "number = 3"]
    (tmp_path / f"{name}.py").write_text("\n".join(lines))
    (tmp_path / f"{name}_broken.py").write_text("1 / 0")
    return name


def test_a_built_in_is_found_by_its_name() -> None:
    assert KIND.find("first") is min
    assert KIND.names() == ["first", "last"]


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="'best' is unknown; choices: first, last, or module"):
        KIND.find("best")


@pytest.mark.parametrize("odd", [None, [], 3, 1.5, b"first", min])
def test_what_is_no_name_is_told(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"victim policy is .*; it must be text, such as 'module:"):
        KIND.find(odd)
    with pytest.raises(ValueError, match=r"policy is .*; it must be text, such as 'module:name'"):
        load_policy(odd)


def test_a_module_of_the_current_folder(own_module: str) -> None:
    assert KIND.find(f"{own_module}:Nest.best") is min


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{}:Nest.worst", "'{}:Nest.worst' cannot be loaded: AttributeError: .*'worst'"),
        ("{}_not:f", "cannot be loaded: ModuleNotFoundError: No module named '{}_not'"),
        ("{}_broken:f", "cannot be loaded: ZeroDivisionError"),
        ("{}:number", "is 3; expected a class or a function"),
        (":f", "cannot be loaded: ValueError"),
        ("{}:", "cannot be loaded: AttributeError"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(own_module: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.format(own_module)) as caught:
        KIND.find(value.format(own_module))
    assert "\n" not in str(caught.value)


def test_plug_ins_of_installed_packages(own_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint(name="victim.best", value=f"{own_module}:Nest.best", group=registry.GROUP),
        EntryPoint(name="victim.last", value="os:abort", group=registry.GROUP),
        EntryPoint(name="queue.best", value="os:abort", group=registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(entries))
    assert KIND.names() == ["first", "last", "best"]
    assert KIND.find("best") is min
    assert KIND.find("last") is max, "a plug-in cannot replace a built-in policy"


def test_the_truth_goes_to_who_declares_it() -> None:
    context = PolicyContext(SchedulerConfig(), truth=Truth())
    assert build(Blind, context).truth is None
    assert build(Seer, context).truth is context.truth
