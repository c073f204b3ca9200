"""Policies of one's own in a run: what the engine trips over is told of them, by name.

Guards (:mod:`kvsim.policies.guards`) check what a policy answers. What it may do besides has no end
- answers of another type, sequences changed behind the engine's back -, so that whatever the engine
then raises is told of the strangers among its policies.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING

from kvsim.policies.guards import BrokenRuleError
from kvsim.policies.guards.raised import RAISED, raised
from kvsim.policies.option_keys import rule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kvsim.policies.scheduler_config import SchedulerConfig


def strangers(config: SchedulerConfig) -> list[str]:
    """Kind and name of each policy that is not bundled."""
    found = []
    for table in config.tables().values():
        for item in fields(table):  # type: ignore[arg-type]
            registry, name = rule_of(item).registry, getattr(table, item.name)
            if registry is not None and name not in registry.builtins:
                found.append(f"{registry.kind} policy {name!r}")
    return found


@contextmanager
def told_of_strangers(config: SchedulerConfig, clock_ended: Callable[[], bool]) -> Iterator[None]:
    """Turn what is raised within into one sentence on the strangers, where there are any.

    Raises
    ------
    BrokenRuleError
        Of a guard as it is, else with their names. An ``OverflowError`` passes where
        ``clock_ended``: it is the time then that no column holds, else a number of theirs.
    """
    try:
        yield
    except BrokenRuleError:
        raise
    except RAISED as error:
        names = strangers(config)
        if not names or (isinstance(error, OverflowError) and clock_ended()):
            raise
        raise BrokenRuleError(
            f"{' or '.join(names)} broke a rule: the engine could not go on with what it "
            f"answered or changed ({raised(error)})"
        ) from error
