"""By priority, then arrival, then request id (as a string); lower is sooner."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.sequence import Sequence


class Priority:
    """The queue of vLLM's ``policy="priority"``; preempted sequences are inserted by priority."""

    name = "priority"

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, str, Sequence]] = []

    def push(self, sequence: Sequence) -> None:
        """Insert a request that arrives or returns."""
        insort(
            self._queue,
            (sequence.priority, sequence.arrival_ps, sequence.name, sequence),
            key=lambda entry: entry[:3],
        )

    push_preempted = push

    def head(self) -> Sequence:
        """Return the next sequence; the queue must not be empty."""
        return self._queue[0][3]

    def pop(self) -> Sequence:
        """Remove and return the head."""
        return self._queue.pop(0)[3]

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        self._queue = [entry for entry in self._queue if entry[3] is not sequence]

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return (entry[3] for entry in self._queue)
