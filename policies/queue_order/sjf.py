"""Shortest job first, by the work that is expected to be left.

A waiting sequence's work is how long its prefill beside what is cached and the rest of its
predicted answer would last alone, by the run's cost model. With ``queue.ageing`` = a, every second
waited counts as ``a`` seconds less of work: the key is ``work - a x (now - arrival)``. As ``now``
is the same for all, the order is that of ``work + a x arrival`` and needs no clock.

Cache, tokens and predictions change while a sequence waits. Its key is taken when it arrives or
returns, and those of all are taken anew before the next head is looked for once one has entered: a
whole pass over the queue for each admission, none for each step.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from kvsim.policies.predictor.base import require_prediction, sampled_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

    Entry = tuple[int, int, int, Sequence]


class ShortestJobFirst:
    """See the module docstring; ties by arrival, then place in the trace."""

    name = "sjf"

    def __init__(self, context: PolicyContext) -> None:
        require_prediction(context.predictor, "queue.policy = 'sjf'")
        assert context.cost is not None, "work is told in seconds by a cost model"
        self._predictor = context.predictor
        self._cost = context.cost
        self._cached_tokens = context.cached_tokens
        self._ageing = context.config.queue.ageing
        self._queue: list[Entry] = []
        self._stale = False

    def push(self, sequence: Sequence) -> None:
        """A request arrives, or returns: to its place by its key as of now."""
        insort(self._queue, self._entry(sequence), key=lambda entry: entry[:3])

    push_preempted = push

    def head(self) -> Sequence:
        """Who is next; O(waiting x hit) after an admission, else O(1)."""
        self._renew()
        return self._queue[0][3]

    def pop(self) -> Sequence:
        """Take out the head."""
        self._renew()
        self._stale = True
        return self._queue.pop(0)[3]

    def remove(self, sequence: Sequence) -> None:
        """Take out one that ended while it waited."""
        self._queue = [entry for entry in self._queue if entry[3] is not sequence]

    def work_ps(self, sequence: Sequence) -> int:
        """Prefill of what is not cached, then all predicted tokens but the one it samples."""
        cached = self._cached_tokens(sequence)
        remaining = self._predictor.output_tokens(sequence) - sampled_tokens(sequence)
        prefill_ps = self._cost.prefill_ps(sequence.num_tokens - cached, cached)
        return prefill_ps + self._cost.decode_ps(remaining - 1, sequence.num_tokens + 1)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        self._renew()
        return (entry[3] for entry in self._queue)

    def _entry(self, sequence: Sequence) -> Entry:
        arrival_ps = sequence.arrival_ps
        key = self.work_ps(sequence) + round(self._ageing * arrival_ps)
        return (key, arrival_ps, sequence.index, sequence)

    def _renew(self) -> None:
        if self._stale:
            self._stale = False
            self._queue = sorted(self._entry(entry[3]) for entry in self._queue)
