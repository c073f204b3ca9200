"""The contract of queue orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.sequence import Sequence


class QueueOrder(Protocol):
    """Waiting sequences, in the order of their admission.

    Only the head is tried. If the head cannot be admitted, all sequences behind it wait. The engine
    asks for the head at each scheduling call and after each admission, so the order may change in
    between.
    """

    name: str

    def push(self, sequence: Sequence) -> None:
        """Add a request that arrives."""
        ...

    def push_preempted(self, sequence: Sequence) -> None:
        """Add a preempted sequence."""
        ...

    def head(self) -> Sequence:
        """Return the next sequence; the queue must not be empty."""
        ...

    def pop(self) -> Sequence:
        """Remove and return the head."""
        ...

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence]:
        """Return the sequences in queue order."""
        ...
