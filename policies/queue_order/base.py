"""The seam of queue orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.sequence import Sequence


class QueueOrder(Protocol):
    """Sequences that wait, in the order in which they may enter.

    Only the head is ever tried: one that cannot enter holds up everybody behind it. It is asked for
    at each scheduling call and after each admission, so orders may change in between.
    """

    name: str

    def push(self, sequence: Sequence) -> None:
        """A request arrives."""
        ...

    def push_preempted(self, sequence: Sequence) -> None:
        """A preempted sequence returns."""
        ...

    def head(self) -> Sequence:
        """Who is next; the queue must not be empty."""
        ...

    def pop(self) -> Sequence:
        """Take out the head."""
        ...

    def remove(self, sequence: Sequence) -> None:
        """Take out one that ended while it waited."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence]:
        """In order of the queue."""
        ...
