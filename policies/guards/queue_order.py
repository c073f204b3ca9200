"""Rules of queue orders: exactly the sequences that were pushed wait, until they are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.guards.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.queue_order.base import QueueOrder
    from kvsim.policies.sequence import Sequence


class GuardedQueue(Guard["QueueOrder"]):
    """A plug-in queue order; its waiting sequences are counted."""

    kind = "queue"

    def __init__(self, name: str, policy: QueueOrder, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.name = name
        self._waiting: dict[int, Sequence] = {}

    def push(self, sequence: Sequence) -> None:
        """Add a request that arrives."""
        self.call("push", sequence)
        self._waiting[sequence.index] = sequence
        self._check_count("push")

    def push_preempted(self, sequence: Sequence) -> None:
        """Add a preempted sequence."""
        self.call("push_preempted", sequence)
        self._waiting[sequence.index] = sequence
        self._check_count("push_preempted")

    def head(self) -> Sequence:
        """Return the next sequence."""
        return self._member("head")

    def pop(self) -> Sequence:
        """Remove and return the head."""
        head = self._member("head")
        sequence = self._member("pop")
        self.require(sequence is head, f"pop gave {sequence}, but head gave {head}")
        del self._waiting[sequence.index]
        self._check_count("pop")
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        self.call("remove", sequence)
        del self._waiting[sequence.index]
        self._check_count("remove")

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(list(self.call("__iter__")))

    def _member(self, method: str) -> Sequence:
        sequence: Sequence = self.call(method)
        known = self._waiting.get(getattr(sequence, "index", -1))
        self.require(known is sequence, f"{method} gave {sequence!r}, which does not wait")
        return sequence

    def _check_count(self, method: str) -> None:
        count = self.call("__len__")
        self.require(
            count == len(self._waiting),
            f"after {method} it holds {count} sequences, {len(self._waiting)} wait",
        )
