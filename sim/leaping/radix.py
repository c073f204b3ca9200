"""Leaps over a radix tree of prefixes.

Generated tokens stay outside the tree until their request ends. No request can find them, and no
leap ends for them. There are three differences to chained hashes:

* a chunk is published when its step has *run*: with its results, before requests later in the
  running list finish. The engine waits for a step in flight that has chunks;
* whole nodes are evicted, so a leap ends before a call that would evict;
* a lookup refreshes. The stepper looks up the head of the queue in every call, a leap only in its
  first call. Within a leap nothing else touches the tree, so the order of last uses is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_within
from kvsim.sim.leaping.cache.radix_pages import RadixPages
from kvsim.sim.leaping.leaper import Leaper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.leaping.state import Running, StepInFlight

    Chunk = tuple[Running, int]


class RadixLeaper(Leaper):
    """See the module docstring; chunks are ``(request, tokens computed with it)``."""

    __slots__ = ("_chunks", "_due", "_in_flight", "_pages")

    def _read_rules(self, config: SchedulerConfig, seed: int) -> None:
        super()._read_rules(config, seed)
        self._shares_outputs = False
        self._pages = RadixPages(config, lambda index: -self._requests.priority(index))
        self._cache = self._pages
        self._chunks: list[Chunk] = []  # of the last call
        self._in_flight: list[Chunk] = []  # of the step whose results are still out
        self._due: list[Chunk] = []  # of the step whose results are applied now

    def apply(self, now_ps: int) -> Sequence[int]:
        """As in the leaper; chunks that have run are published in the order of the running list."""
        if not self._leap_steps:
            self._due, self._in_flight = self._in_flight, []
        finished = super().apply(now_ps)
        self._publish_due()
        return finished

    def _fly(self, now_ps: int) -> StepInFlight | None:
        landed = super()._fly(now_ps)
        if self._lag:
            self._due, self._in_flight = self._in_flight, self._chunks
        else:
            self._due = self._chunks
        self._chunks = []
        return landed

    def _publish_chunk(self, request: Running) -> None:
        """Keep the chunk; its tokens are findable once the step has run."""
        self._chunks.append((request, request.num_computed_tokens))

    def _publish_due(self, upto: int | None = None) -> None:
        """Publish chunks of sequences up to position ``upto`` of the running list."""
        while self._due and (upto is None or self._due[0][0].order <= upto):
            request, computed = self._due.pop(0)
            is_last = computed == request.num_tokens
            self._pages.publish_run(request.holding, computed, num_hits=int(is_last))

    def _preempt(self, request: Running) -> None:
        """Preempt a request; what it has not published is lost."""
        for chunks in (self._chunks, self._in_flight):
            chunks[:] = [chunk for chunk in chunks if chunk[0] is not request]
        self._pages.let_go(request.holding)
        super()._preempt(request)

    def _give_up(self, request: Running, published: int, now_ps: int) -> None:
        self._publish_due(request.order)
        super()._give_up(request, published, now_ps)

    def _leap(self, context: int) -> None:
        super()._leap(context)
        if self._in_flight:
            self._leap_steps = 1

    def _within_memory(self, steps: int) -> int:
        """Cut a leap where a node would be evicted, or the head has no room for its chunk."""
        cache, batch = self._cache, self._batch
        blocks = cache.num_blank
        if self._cause == "admission rule":
            blocks = min(blocks, cache.num_free - self._head_needs)
        return min(steps, 1 + steps_within(self._demand, self._v % self._block_size, batch, blocks))
