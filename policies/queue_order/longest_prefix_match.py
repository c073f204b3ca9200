"""Longest cached prefix first: SGLang's ``lpm`` (managers/schedule_policy.py).

SGLang sorts its queue by matched prefix once for each scheduling call. While more than 128 requests
wait (``queue.lpm_max_waiting``) it keeps the order of arrival, because matching all of them is
expensive. Here the head is searched again at each admission. So a prefix that one request caches
counts for the next request at once. SGLang also delays requests if another waiting request is about
to cache their prefix. This is not modelled: such requests keep their order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.queue_order.fcfs import FCFS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class LongestPrefixMatch(FCFS):
    """See the module docstring; equal prefixes keep queue order (preempted sequences first)."""

    name = "longest-prefix-match"

    def __init__(self, context: PolicyContext) -> None:
        super().__init__()
        self._cached_tokens = context.cached_tokens
        self._max_waiting = context.config.queue.lpm_max_waiting
        self._head: Sequence | None = None

    def push(self, sequence: Sequence) -> None:
        """Add a request that arrives."""
        self._head = None
        super().push(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """Add a preempted sequence."""
        self._head = None
        super().push_preempted(sequence)

    def head(self) -> Sequence:
        """Return the next sequence by the cache of now; O(waiting x hit), O(1) in a long queue."""
        if self._is_long():
            self._head = self._queue[0]
        else:
            self._head = max(self._queue, key=self._cached_tokens)
        return self._head

    def pop(self) -> Sequence:
        """Remove the sequence that was found as head, even if the cache has changed since."""
        head = self.head() if self._head is None else self._head
        self.remove(head)
        return head

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        self._head = None
        super().remove(sequence)

    def __iter__(self) -> Iterator[Sequence]:
        if self._is_long():
            return iter(self._queue)
        return iter(sorted(self._queue, key=self._cached_tokens, reverse=True))

    def _is_long(self) -> bool:
        return self._max_waiting is not None and len(self._queue) > self._max_waiting
