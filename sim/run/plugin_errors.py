"""Errors that plug-in policies cause in a run.

Guards (:mod:`kvsim.policies.guards`) check what a policy returns. A plug-in can still do other
harm, for example return a wrong type or change a sequence. The engine then raises some exception.
This module turns that exception into one sentence that names the plug-ins of the run.
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


def plugins(config: SchedulerConfig) -> list[str]:
    """Return kind and name of each policy that kvsim does not bundle."""
    found = []
    for table in config.tables().values():
        for item in fields(table):  # type: ignore[arg-type]
            registry, name = rule_of(item).registry, getattr(table, item.name)
            if registry is not None and name not in registry.builtins:
                found.append(f"{registry.kind} policy {name!r}")
    return found


@contextmanager
def plugin_errors(config: SchedulerConfig, clock_ended: Callable[[], bool]) -> Iterator[None]:
    """Turn an exception raised inside into one sentence that names the plug-ins.

    Without plug-ins the exception passes unchanged. So does an ``OverflowError`` when
    ``clock_ended`` returns True, because then the clock overflowed and no plug-in is at fault.

    Raises
    ------
    BrokenRuleError
        The error of a guard, unchanged, or a new one with the names of the plug-ins.
    """
    try:
        yield
    except BrokenRuleError:
        raise
    except RAISED as error:
        names = plugins(config)
        if not names or (isinstance(error, OverflowError) and clock_ended()):
            raise
        raise BrokenRuleError(
            f"{' or '.join(names)} broke a rule: the engine failed on what the policy returned "
            f"or changed ({raised(error)})"
        ) from error
