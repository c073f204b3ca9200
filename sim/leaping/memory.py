"""Memory of a leaper over time: constant between events, a closed-form sum within a leap.

A leap crosses windows of the recorder. Each part of it inside one window is recorded as a whole
(``_account_steps``). A step across an edge is recorded separately.
"""

from __future__ import annotations

from kvsim.sim.cost.equal_steps import (
    steps_ps,
    steps_to_reach,
    steps_within,
    weighted_blocks,
    weighted_steps,
)
from kvsim.sim.leaping.state import LeapState, Running


class LeapMemory(LeapState):
    """See the module docstring; a layer of the leaper."""

    __slots__ = ()

    def _account(self, now_ps: int) -> None:
        """Record the memory, which was constant since the last event."""
        cache, block_size = self._cache, self._block_size
        self.recorder.interval(
            self._since_ps,
            now_ps,
            cache.num_blank * block_size,
            cache.num_cached * block_size,
            self._num_empty,
            cache.num_duplicates * block_size,
            len(self._running),
        )
        if cache.num_shared:
            self.recorder.shared(self._since_ps, now_ps, cache.num_shared * block_size)
        self._since_ps = now_ps

    def _account_leap(self, steps: int, now_ps: int) -> None:
        """Record memory over the leap's intervals; calls after the first take their blocks here."""
        recorder, slope_ps = self.recorder, self._slope_ps
        v, first_ps = self._v, self._first_ps
        if self._lag:  # until the step in flight ends, memory is as after the first call
            self._account(self._leap_start_ps)
            v, steps = v + 1, steps - 1
            self._advance(v)
        since_ps = self._since_ps
        while recorder.crosses(since_ps, now_ps):
            span_ps = recorder.window_end(since_ps) - since_ps
            whole = steps_to_reach(first_ps, slope_ps, span_ps + 1) - 1
            if whole:
                self._account_steps(v, whole, first_ps, slope_ps)
                self._advance(v + whole)
            # one step across the edge
            self._account(self._since_ps + first_ps + slope_ps * whole)
            whole += 1
            v, steps, first_ps = v + whole, steps - whole, first_ps + slope_ps * whole
            since_ps = self._since_ps
            if steps:
                self._advance(v)
        if steps:
            self._account_steps(v, steps, first_ps, slope_ps)
        assert self._since_ps == now_ps, "a leap's steps and its boundary differ"

    def _advance(self, v: int) -> None:
        """Take the blocks of call ``v``."""
        blocks = self._demand_of(v)
        self._cache.take(blocks)
        self._num_empty += blocks * self._block_size - self._batch

    def _account_steps(self, v: int, steps: int, first_ps: int, slope_ps: int) -> None:
        """Record integrals over ``steps`` intervals of one window; the first is after call ``v``.

        The calls between them take their blocks. Afterwards memory is as after the last call.
        """
        cache, block_size, batch = self._cache, self._block_size, self._batch
        demand, phase, empty = self._demand, v % block_size, self._num_empty
        ps = steps_ps(first_ps, slope_ps, steps)
        later_ps = first_ps + slope_ps
        taken_ps, last = weighted_blocks(demand, phase, steps - 1, later_ps, slope_ps)
        blank, cached = cache.num_blank, cache.num_cached
        if last <= blank:
            blank_ps, cached_ps = blank * ps - taken_ps, cached * ps
        elif not blank:
            blank_ps, cached_ps = 0, cached * ps - taken_ps
        else:
            from_blank = steps_within(demand, phase, batch, blank)
            blank_taken_ps, _ = weighted_blocks(demand, phase, from_blank, later_ps, slope_ps)
            part_ps = steps_ps(first_ps, slope_ps, from_blank + 1)
            blank_ps = blank * part_ps - blank_taken_ps
            cached_ps = cached * ps + blank * (ps - part_ps) - (taken_ps - blank_taken_ps)
        computed_ps = weighted_steps(first_ps, slope_ps, steps)
        since_ps, self._since_ps = self._since_ps, self._since_ps + ps
        if cache.num_shared:
            self.recorder.shared(since_ps, self._since_ps, cache.num_shared * block_size)
        self.recorder.sums(
            self._since_ps,
            ps,
            blank_ps * block_size,
            cached_ps * block_size,
            empty * ps + taken_ps * block_size - computed_ps * batch,
            cache.num_duplicates * block_size,
            len(self._running),
        )
        if last:
            cache.take(last)
        self._num_empty = empty + last * block_size - batch * (steps - 1)

    def check_invariants(self) -> None:
        """Verify the sums against the requests themselves; O(running + pieces)."""
        decoding = [request for request in self._running.values() if request.decoding]
        assert len(decoding) == self._batch, "batch is off"
        assert sum(request.x for request in decoding) == self._sum_x, "sum of x is off"
        counts = [0] * self._block_size
        for request in decoding:
            counts[request.x % self._block_size] += 1
        assert counts * 2 == self._demand, "phase histogram is off"
        assert len(self._running) <= self._max_num_seqs, "more sequences than max_num_seqs"
        self._check_memory()

    def _computed(self, request: Running) -> int:
        """Return the tokens that a running request has computed after the last call."""
        return (
            self._v - request.x - (not self._leap_steps)
            if request.decoding
            else request.num_computed_tokens
        )

    def _check_memory(self) -> None:
        empty = unkeyed = 0
        for request in self._running.values():
            computed = self._computed(request)
            blocks = -(-computed // self._block_size)
            empty += blocks * self._block_size - computed
            unkeyed += blocks - request.holding.published
        assert empty == self._num_empty, "empty slots are off"
        self._cache.check_invariants(self._num_blocks, unkeyed)
