"""``kvsim policy check``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

OWN = """
from kvsim.policies.queue_order import FCFS
class Good(FCFS):
    def __init__(self, context):
        super().__init__()
class Bad(Good):
    def pop(self):
        return self._queue.pop()
class Guess:
    uses_oracle = True
    predicts = True
    def __init__(self, context):
        self._truth = context.truth
    def output_tokens(self, sequence):
        return self._truth.num_outputs(sequence.index)
    def finished(self, sequence):
        pass
class Both(Good, Guess):
    pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(OWN))
    return name


def test_a_good_policy_passes(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", f"{own}:Good", "--runs", "5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"queue policy {own}:Good\n")
    assert out.count("ok") == 3
    assert max(map(len, out.splitlines())) <= 80


def test_a_broken_rule_is_told_and_fails(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", f"{own}:Bad", "--runs", "5"]) == 1
    out = capsys.readouterr().out
    assert "broken" in out
    assert "pop gave" in out


def test_an_oracle_is_not_held_to_the_wall(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", f"{own}:Guess", "--runs", "5"]) == 0
    assert "uses oracle knowledge, as it declares" in " ".join(capsys.readouterr().out.split())


def test_built_in_policies_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "iteration-level", "--runs", "3"]) == 0
    assert capsys.readouterr().out.startswith("batching policy iteration-level\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}:Both"], "is of several kinds (queue, predictor): allocator (find_hit)"),
        (["os:abort"], "policy 'os:abort' is of no known kind"),
        (["{}:Worse"], "policy '{}:Worse' cannot be loaded: AttributeError"),
        (["lifo"], "policy 'lifo' is of no known kind"),
        (["fcfs", "--runs", "0"], "--runs is 0; it must be at least 1"),
        (["fcfs", "--kind", "cache"], "--kind 'cache' is unknown; choices: allocator, batching"),
        (["fcfs", "--kind", "batching"], "batching policy 'fcfs' is unknown; choices:"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(
    own: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["policy", "check", *[one.format(own) for one in arguments]]) == 2
    error = capsys.readouterr().err
    assert message.format(own) in error
    assert error.count("\n") == 1
