"""How a step is composed and what may enter."""

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

BATCHING: dict[str, type[Batching]] = {
    MixedRunningFirst.name: MixedRunningFirst,
    IterationLevel.name: IterationLevel,
}


def make_batching(name: str) -> Batching:
    """Build a batching policy by name; an unknown name lists the choices."""
    if name not in BATCHING:
        msg = f"batching policy {name!r} is unknown; choose one of {', '.join(sorted(BATCHING))}"
        raise ValueError(msg)
    return BATCHING[name]()


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
    "make_batching",
]
