"""``kvsim list``: a line for everything that can be chosen, nothing listed by hand."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.cli.text.catalogue import KINDS, NO_DOCSTRING, policies, summary_of
from kvsim.policies import registry
from kvsim.policies.batching import BATCHING
from kvsim.sim.comparison.presets import COMPARISON_PRESETS
from kvsim.sim.comparison.scenarios import ALIASES
from kvsim.sim.hardware import bundled_hardware
from kvsim.sim.models import bundled_models
from kvsim.sim.scenario.preset import preset_names
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.formats import READERS

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "presets": [*preset_names(), *ALIASES, *COMPARISON_PRESETS],
    "models": list(bundled_models()),
    "hardware": list(bundled_hardware()),
    "formats": [reader.name for reader in READERS],
}


@pytest.mark.parametrize("kind", NAMES)
def test_all_names_of_a_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line[2] != " " and line[0] == " "] == NAMES[kind]


def test_policies_stand_under_the_keys_that_take_them() -> None:
    found = {(entry.use, entry.name): entry for entry in policies()}
    for name in BATCHING.names():
        assert ("batching.policy", name) in found
    scenario = Scenario()
    for use, _name in found:
        table, _, key = use.partition(".")
        assert any(item.name == key for item in fields(getattr(scenario, table)))
    assert found["allocator.reservation", "oracle"].verified == "uses oracle knowledge"
    assert found["allocator.reservation", "max"].verified == ""


def test_everything_says_what_it_is() -> None:
    for kind, entries in KINDS.items():
        for entry in entries():
            assert entry.what not in {"", NO_DOCSTRING}, f"{kind}: {entry.use} {entry.name}"
            assert "module docstring" not in entry.what


def test_summaries_of_functions_classes_and_factories() -> None:
    class Oldest:
        """The one that waits longest.

        More words.
        """

    def newest() -> None:
        """Look at ``arrival``."""

    assert summary_of("oldest", Oldest) == "The one that waits longest"
    assert summary_of("newest", newest) == "Look at arrival"
    (name, *_) = BATCHING.names()
    assert summary_of(name, BATCHING.find(name)).startswith("Running sequences first")


PLUG_INS = '''"""Queues that two teams wrote. This sentence is not shown."""


class Lanes:
    """Serve short prompts in a lane
    of their own. The second sentence is not shown.
    """

    def __init__(self, context):
        raise RuntimeError("a list builds no policy")


class Elsewhere(Lanes):
    """See the module docstring."""


class Bare:
    uses_oracle = True
'''


def test_plug_ins_show_their_own_docstring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = f"listed_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(PLUG_INS)
    places = {
        "queue.lanes": f"{module}:Lanes",
        "batching.elsewhere": f"{module}:Elsewhere",
        "allocator.bare": f"{module}:Bare",
        "victim.lost": f"{module}:Lost",
    }
    entries = [EntryPoint(name, value, registry.GROUP) for name, value in places.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(entries))
    found = {(entry.use, entry.name): entry for entry in policies()}
    assert found["queue.policy", "lanes"].what == "Serve short prompts in a lane of their own"
    assert found["batching.policy", "elsewhere"].what == "Queues that two teams wrote"
    assert found["allocator.kind", "bare"].what == NO_DOCSTRING
    assert found["allocator.kind", "bare"].verified == "uses oracle knowledge"
    assert "'Lost'" in found["preemption.victim", "lost"].what, "one fault hides no other policy"
    assert main(["list", "policies"]) == 0
    assert "lane of their own" in capsys.readouterr().out


def test_json_and_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("schema") == "kvsim.list/1"
    assert list(document) == sorted(KINDS)
    assert set(document["models"][0]) == {"use", "name", "what", "verified"}
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "policies: batching.policy" in out
    assert "formats: --format" in out
    assert max(map(len, out.splitlines())) <= 80
    entries = sum(len(entries) for entries in document.values())
    named = [line for line in out.splitlines() if line[:2] == "  " and line[2] != " "]
    assert len(named) == entries, "each name once"
    assert "..." not in out.replace("+...", ""), "nothing is cut"
    words = {entry["what"].split()[-1] for kind in document.values() for entry in kind}
    assert words <= set(re.findall(r"[^\s;]+", out) + out.split())


@pytest.mark.parametrize(
    ("use", "names"),
    [
        ("allocator.placement", {"buddy", "first-fit", "best-fit"}),
        ("allocator.prefix", {"auto", "hash", "radix", "none"}),
        ("preemption.mode", {"recompute", "swap", "swap-groups", "auto"}),
    ],
)
def test_choices_without_plug_ins_are_listed(use: str, names: set[str]) -> None:
    assert {entry.name for entry in policies() if entry.use == use} == names


def test_an_unknown_kind_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list", "modells"])
    assert "did you mean 'models'?" in capsys.readouterr().err
