"""How a step is composed and what may enter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.batching.base import (
    Admission,
    Batching,
    Item,
    Preemption,
    ScheduledStep,
    SchedulerState,
)
from kvsim.policies.batching.iteration_level import IterationLevel
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext

BATCHING: Final[Registry[Callable[[PolicyContext], Batching]]] = Registry(
    "batching",
    {
        MixedRunningFirst.name: lambda _context: MixedRunningFirst(),
        IterationLevel.name: lambda _context: IterationLevel(),
    },
)

__all__ = [
    "BATCHING",
    "Admission",
    "Batching",
    "Item",
    "IterationLevel",
    "MixedRunningFirst",
    "Preemption",
    "ScheduledStep",
    "SchedulerState",
]
