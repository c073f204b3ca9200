"""First come, first served; preempted sequences return to the front."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.sequence import Sequence


class FCFS:
    """The queue of vLLM's ``policy="fcfs"`` (v1/core/sched/request_queue.py, 0.32.0)."""

    name = "fcfs"

    def __init__(self) -> None:
        self._queue: deque[Sequence] = deque()

    def push(self, sequence: Sequence) -> None:
        """Add a request that arrives: last."""
        self._queue.append(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """Add a preempted sequence: first."""
        self._queue.appendleft(sequence)

    def head(self) -> Sequence:
        """Return the next sequence; the queue must not be empty."""
        return self._queue[0]

    def pop(self) -> Sequence:
        """Remove and return the head."""
        return self._queue.popleft()

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        self._queue.remove(sequence)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)
