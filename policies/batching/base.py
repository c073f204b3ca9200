"""The seam of batching: what a scheduling call sees, and what it hands out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvsim.policies.preemption.mode import Recompute

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.preemption.mode import PreemptionMode
    from kvsim.policies.preemption.victims import Victim
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
    """One sequence put out, and the computed tokens it had.

    They are lost, unless ``swapped_blocks`` went to the host.
    """

    sequence: Sequence
    num_computed_tokens: int
    swapped_blocks: int = 0


class SwapIn(NamedTuple):
    """One sequence that came back from the host.

    ``hit_tokens``: what the prefix cache held of it just then; it is not used.
    """

    sequence: Sequence
    num_blocks: int
    hit_tokens: int


class Dropped(NamedTuple):
    """One waiting sequence that can never enter, and why."""

    sequence: Sequence
    reason: str


@dataclass(slots=True)
class ScheduledStep:
    """The result of one scheduling call, in the engine's order.

    ``dropped``: sequences taken out of the queue that can never enter, each with the reason.
    ``waits_for``: why the first of those on the host, else the head of the queue, stays out (one of
    ``Recorder`` causes), ``None`` where nobody waits. ``ends_together``: who ends in this step
    keeps memory, place and its row of the batch until nobody runs any more. ``padded_to``: tokens
    that every row of the batch spans, those of ended members too; 0 where rows are not padded.
    """

    items: list[Item] = field(default_factory=list)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    swapped_in: list[SwapIn] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    waits_for: str | None = None
    ends_together: bool = False
    padded_to: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all items, each sequence of a group counted."""
        return sum(
            item.num_tokens
            * (item.sequence.width if item.past >= item.sequence.prompt_tokens else 1)
            for item in self.items
        )


@dataclass(slots=True)
class SchedulerState:
    """What batching decides on: queue, running list (in order of admission), memory.

    ``swapped``: sequences whose blocks are on the host, in the order in which they went there.
    ``ended``: members of a batch that ends together which have ended, but still hold memory.
    """

    context: PolicyContext
    allocator: Allocator
    waiting: QueueOrder
    victim: Victim
    mode: PreemptionMode = field(default_factory=Recompute)
    running: list[Sequence] = field(default_factory=list)
    swapped: deque[Sequence] = field(default_factory=deque)
    ended: list[Sequence] = field(default_factory=list)

    @property
    def num_running_seqs(self) -> int:
        """Sequences that run, each of a group counted; O(running)."""
        return sum(sequence.width for sequence in self.running)

    @property
    def num_waiting(self) -> int:
        """Requests that are in the engine and do not run, those on the host included."""
        return len(self.waiting) + len(self.swapped)

    def head(self) -> Sequence:
        """Who is next to enter; somebody waits."""
        return self.swapped[0] if self.swapped else self.waiting.head()

    @property
    def config(self) -> SchedulerConfig:
        """The engine's options."""
        return self.context.config

    def check_invariants(self) -> None:
        """Verify every structure and counter between calls; O(pool + running)."""
        self.allocator.check_invariants()
        members = [*self.running, *self.ended]
        num_seqs = sum(sequence.width for sequence in members)
        assert num_seqs <= self.config.max_num_seqs, "more sequences than max_num_seqs"
        for sequence in self.running:
            known = sequence.num_tokens + sequence.num_output_placeholders
            assert sequence.num_computed_tokens <= known, f"{sequence} computed more than it knows"
            assert self.allocator.num_held(sequence), f"{sequence} has no block"
        held = self.allocator.owners()
        assert held == {sequence.index for sequence in members}, "blocks without an owner"
        self.mode.host.check_invariants()
        out = {sequence.index for sequence in self.swapped}
        assert self.mode.host.owners() == out, "host blocks without an owner"


class Batching(Protocol):
    """Compose the steps.

    ``compose`` may call ``grow``, ``admit`` and ``release`` of the allocator. It may move sequences
    between the queue and the running list. The engine alone sets ``num_computed_tokens``, with one
    exception: ``compose`` sets it to 0 for a victim that recomputes.
    """

    name: str

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """One scheduling call: O(running + admitted)."""
        ...
