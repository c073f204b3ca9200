"""The seam of batching: what a scheduling call sees, and what it hands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.queue_order.base import QueueOrder
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class Item(NamedTuple):
    """Tokens given to one sequence in one step; ``past`` = computed before."""

    sequence: Sequence
    num_tokens: int
    past: int


class Admission(NamedTuple):
    """One sequence that entered: its hit, and whether it came back from a preemption."""

    sequence: Sequence
    hit_tokens: int
    resumed: bool


class Preemption(NamedTuple):
    """One sequence put out, and the computed tokens it lost."""

    sequence: Sequence
    lost_tokens: int


@dataclass(slots=True)
class ScheduledStep:
    """The result of one scheduling call, in the engine's order.

    ``waits_for``: why the head of the queue stays out (one of ``Recorder`` causes), ``None`` where
    nobody waits.
    """

    items: list[Item] = field(default_factory=list)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    waits_for: str | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens of all items."""
        return sum(item.num_tokens for item in self.items)


@dataclass(slots=True)
class SchedulerState:
    """What batching decides on: queue, running list (in order of admission), memory."""

    context: PolicyContext
    allocator: Allocator
    waiting: QueueOrder
    victim: Callable[[list[Sequence]], Sequence]
    running: list[Sequence] = field(default_factory=list)

    @property
    def config(self) -> SchedulerConfig:
        """The engine's options."""
        return self.context.config


class Batching(Protocol):
    """Composes steps.

    ``compose`` may grow, admit and release through the allocator, move sequences between queue and
    running list, and must leave ``computed`` to the engine except for victims (0).
    """

    name: str

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """One scheduling call: O(running + admitted)."""
        ...
