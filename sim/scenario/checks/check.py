"""Rows of the tables that say which options contradict each other, or have no use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.scenario import Scenario

    Checks = tuple["Check[Scenario, SchedulerConfig]", ...]

S = TypeVar("S")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Check(Generic[S, P]):
    """One row: the tables of a scenario that it reads, when it applies, and what it says then.

    Both functions take the scenario and what it is checked against.
    """

    tables: str
    applies: Callable[[S, P], bool]
    sentence: Callable[[S, P], str]


def refuse(checks: Iterable[Check[S, P]], scenario: S, against: P) -> None:
    """Raise ``ValueError`` with the sentence of the first row that applies."""
    for check in checks:
        if check.applies(scenario, against):
            raise ValueError(check.sentence(scenario, against))


def sentences(checks: Iterable[Check[S, P]], scenario: S, against: P) -> list[str]:
    """Sentences of all rows that apply."""
    return [
        check.sentence(scenario, against) for check in checks if check.applies(scenario, against)
    ]


def has_windows(config: SchedulerConfig) -> bool:
    """Whether the model has windows or several KV groups, not full attention in all layers."""
    return len(config.kv_groups) > 1 or config.kv_groups[0].sliding_window is not None
