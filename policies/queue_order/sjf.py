"""Shortest job first, by the expected remaining work.

The work of a waiting sequence is a time by the run's cost model, as if the sequence ran alone. It
has two parts: the prefill of what is not cached, and the rest of the predicted output. With
``queue.ageing`` = a, each second of waiting counts as ``a`` seconds less of work: the key is ``work
- a x (now - arrival)``. ``now`` is the same for all sequences. So the order is that of ``work + a x
arrival`` and needs no clock.

Cache, tokens and predictions change while a sequence waits. Its key is computed when it arrives or
returns. After an admission all keys are computed again before the next head is chosen. This is one
pass over the queue for each admission, and none for each step.
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
    """See the module docstring; ties are broken by arrival, then by position in the trace."""

    name = "sjf"

    def __init__(self, context: PolicyContext) -> None:
        require_prediction(context.predictor, "queue.policy = 'sjf'")
        assert context.cost is not None, "a cost model gives the work in seconds"
        self._predictor = context.predictor
        self._cost = context.cost
        self._cached_tokens = context.cached_tokens
        self._ageing = context.config.queue.ageing
        self._queue: list[Entry] = []
        self._stale = False

    def push(self, sequence: Sequence) -> None:
        """Insert a request that arrives or returns, by its present key."""
        insort(self._queue, self._entry(sequence), key=lambda entry: entry[:3])

    push_preempted = push

    def head(self) -> Sequence:
        """Return the next sequence; O(waiting x hit) after an admission, else O(1)."""
        self._renew()
        return self._queue[0][3]

    def pop(self) -> Sequence:
        """Remove and return the head."""
        self._renew()
        self._stale = True
        return self._queue.pop(0)[3]

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        self._queue = [entry for entry in self._queue if entry[3] is not sequence]

    def work_ps(self, sequence: Sequence) -> int:
        """Return the time of the prefill of uncached tokens, then of the predicted decodes.

        The prefill samples the first predicted token; the decodes sample the others.
        """
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
