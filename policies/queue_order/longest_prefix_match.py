"""Longest cached prefix first: SGLang's ``lpm`` (managers/schedule_policy.py).

SGLang sorts its queue by matched prefix once a scheduling call, and keeps the order of arrival
while more than 128 requests wait, as matching them all is dear: ``queue.lpm_max_waiting``. Here the
head is looked for anew at each admission, so that a prefix that one request brings in counts for
the next at once. SGLang's setting back of requests whose prefix another waiting one is about to
bring in is left out: of those, too, the first comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.queue_order.fcfs import FCFS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class LongestPrefixMatch(FCFS):
    """See the module docstring; of equal prefixes the first of the queue (preempted ones first)."""

    name = "longest-prefix-match"

    def __init__(self, context: PolicyContext) -> None:
        super().__init__()
        self._cached_tokens = context.cached_tokens
        self._max_waiting = context.config.queue.lpm_max_waiting
        self._head: Sequence | None = None

    def push(self, sequence: Sequence) -> None:
        """A request arrives."""
        self._head = None
        super().push(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """A preempted one returns."""
        self._head = None
        super().push_preempted(sequence)

    def head(self) -> Sequence:
        """Who is next, by what is cached now; O(waiting x hit), O(1) in a long queue."""
        if self._is_long():
            self._head = self._queue[0]
        else:
            self._head = max(self._queue, key=self._cached_tokens)
        return self._head

    def pop(self) -> Sequence:
        """Take out who was found as head, whatever became cached since."""
        head = self.head() if self._head is None else self._head
        self.remove(head)
        return head

    def remove(self, sequence: Sequence) -> None:
        """Take out one that ended while it waited."""
        self._head = None
        super().remove(sequence)

    def __iter__(self) -> Iterator[Sequence]:
        if self._is_long():
            return iter(self._queue)
        return iter(sorted(self._queue, key=self._cached_tokens, reverse=True))

    def _is_long(self) -> bool:
        return self._max_waiting is not None and len(self._queue) > self._max_waiting
