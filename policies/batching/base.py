"""The contract of batching: the input of a scheduling call, and its result."""

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
    """Tokens of one sequence in one step; ``past`` tokens were computed before."""

    sequence: Sequence
    num_tokens: int
    past: int


class Admission(NamedTuple):
    """One admitted sequence: its hit, and whether it returned after a preemption."""

    sequence: Sequence
    hit_tokens: int
    resumed: bool


class Preemption(NamedTuple):
    """One preempted sequence, and how many computed tokens it had.

    The tokens are lost, unless ``swapped_blocks`` blocks were copied to the host.
    """

    sequence: Sequence
    num_computed_tokens: int
    swapped_blocks: int = 0


class SwapIn(NamedTuple):
    """One sequence that was swapped in from the host.

    ``hit_tokens``: what the prefix cache held of it at that time. The engine does not use this hit.
    """

    sequence: Sequence
    num_blocks: int
    hit_tokens: int


class Dropped(NamedTuple):
    """One waiting sequence that can never be admitted, and why."""

    sequence: Sequence
    reason: str


@dataclass(slots=True)
class ScheduledStep:
    """The result of one scheduling call, in the engine's order.

    ``dropped``: sequences that left the queue because they can never be admitted, each with the
    reason.

    ``waits_for``: why the next sequence was not admitted. It is one of the causes of ``Recorder``,
    or ``None`` if no sequence waits. The next sequence is the first one on the host, or else the
    head of the queue.

    ``ends_together``: a sequence that finishes in this step keeps its memory, its place and its row
    of the batch until no sequence runs.

    ``padded_to``: number of tokens that every row of the batch spans, including rows of finished
    sequences; 0 if rows are not padded.
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
        """Number of tokens of all items; each sequence of a group counts."""
        return sum(
            item.num_tokens
            * (item.sequence.width if item.past >= item.sequence.prompt_tokens else 1)
            for item in self.items
        )


@dataclass(slots=True)
class SchedulerState:
    """The input of batching: queue, running list (in order of admission) and memory.

    ``swapped``: sequences with their blocks on the host, in the order in which they were swapped
    out. ``ended``: finished sequences of a batch that ends together; they still hold memory.
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
        """Number of running sequences; each sequence of a group counts; O(running)."""
        return sum(sequence.width for sequence in self.running)

    @property
    def num_waiting(self) -> int:
        """Number of requests in the engine that do not run, including those on the host."""
        return len(self.waiting) + len(self.swapped)

    def head(self) -> Sequence:
        """Return the next sequence to admit; at least one must wait."""
        return self.swapped[0] if self.swapped else self.waiting.head()

    @property
    def config(self) -> SchedulerConfig:
        """The engine's options."""
        return self.context.config

    def check_invariants(self) -> None:
        """Verify every structure and counter between calls; O(pool + running)."""
        self.allocator.check_invariants()
        holding = [*self.running, *self.ended]
        num_seqs = sum(sequence.width for sequence in holding)
        assert num_seqs <= self.config.max_num_seqs, "more sequences than max_num_seqs"
        for sequence in self.running:
            known = sequence.num_tokens + sequence.num_output_placeholders
            assert sequence.num_computed_tokens <= known, f"{sequence} computed more than it knows"
            assert self.allocator.num_held(sequence), f"{sequence} has no block"
        held = self.allocator.owners()
        assert held == {sequence.index for sequence in holding}, "blocks of no sequence"
        self.mode.host.check_invariants()
        out = {sequence.index for sequence in self.swapped}
        assert self.mode.host.owners() == out, "host blocks of no sequence"


class Batching(Protocol):
    """Compose the steps.

    ``compose`` may call ``grow``, ``admit`` and ``release`` of the allocator. It may move sequences
    between the queue and the running list. Only the engine sets ``num_computed_tokens``, with one
    exception: ``compose`` sets it to 0 for a victim that recomputes.
    """

    name: str

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Return the result of one scheduling call; O(running + admitted)."""
        ...
