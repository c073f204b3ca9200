"""Who is preempted when a running sequence lacks a block: pure functions of the running list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.sequence import Sequence

    Victim = Callable[[SequenceOf[Sequence]], Sequence]


def last(running: SequenceOf[Sequence]) -> Sequence:
    """The one admitted last (vLLM, FCFS)."""
    return running[-1]


def lowest_priority(running: SequenceOf[Sequence]) -> Sequence:
    """Largest (priority, arrival); of equals the first in the running list (vLLM, priority)."""
    return max(running, key=lambda sequence: (sequence.priority, sequence.arrival_ps))


VICTIMS: Final[Registry[Victim]] = Registry(
    "victim", {"last": last, "lowest-priority": lowest_priority}
)

__all__ = ["VICTIMS", "last", "lowest_priority"]
