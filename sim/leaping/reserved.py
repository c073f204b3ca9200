"""Leaps over contiguous reservations that are always large enough: decoding takes no memory.

All memory is taken at admission; there the leaper calls the allocator itself. Runs, holes and
round-up do not change between admissions and ends. Only the filled part of the reservations
changes, by one token a step for each decoding request. So a leap's memory is a constant and one
arithmetic series. A leap ends where a request finishes, where an arrival finds an empty queue, or
where the cost changes its form. Memory never runs out in between, and no request is preempted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators import ContiguousAllocator, make_allocator
from kvsim.policies.allocators.contiguous import NO_HIT
from kvsim.policies.context import PolicyContext
from kvsim.sim.cost.equal_steps import steps_ps, weighted_steps
from kvsim.sim.leaping.leaper import Leaper

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Usage
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.leaping.cache.pieces import Found
    from kvsim.sim.leaping.state import Running, StepInFlight


class ReservedLeaper(Leaper):
    """See the module docstring; a block is one slot, and the cache only counts the free ones."""

    __slots__ = ("_allocator", "_hole", "_refused", "_sequences")

    def _read_rules(self, config: SchedulerConfig, seed: int) -> None:
        super()._read_rules(config, seed)
        self.caching = self._shares_outputs = False
        allocator = make_allocator(PolicyContext(config, truth=self._requests))
        assert isinstance(allocator, ContiguousAllocator), "reservations are contiguous"
        self._allocator = allocator
        self._sequences: dict[int, Sequence] = {}
        self._refused: list[int] = []
        self._hole = 0  # free slots that are enough in sum for the head, in no single run

    def plan(self, now_ps: int) -> int | None:
        """As in the leaper; a head that does not fit an empty pool is refused (as stuck)."""
        boundary_ps = super().plan(now_ps)
        waiting = self._waiting
        while boundary_ps is None and waiting:
            self._refuse_stuck(now_ps)
            boundary_ps = super().plan(now_ps)
        self._hole = 0
        if waiting and self._allocator.fragmented(self._sequence(waiting[0])):
            self._hole = self._cache.num_blank
        return boundary_ps

    def take_refused(self) -> list[int]:
        """Return the requests refused by the last calls, as stuck."""
        refused, self._refused = self._refused, []
        return refused

    def _refuse_stuck(self, now_ps: int) -> None:
        index = self._waiting.popleft()
        self._sequences.pop(index)
        del self._seen[index]
        reason = "does not fit even when nothing else runs"
        self.recorder.refused(index, reason)
        if self._listener is not None:
            self._listener.withdrawn(self, index, now_ps, reason)
        self._refused.append(index)
        self.recorder.queue(now_ps, len(self._waiting))

    def _sequence(self, index: int) -> Sequence:
        """Return the allocator's view of a request: its prompt; decoded tokens are not tracked."""
        sequence = self._sequences.get(index)
        if sequence is None:
            sequence = self._sequences[index] = self._requests.sequence(index)
        return sequence

    # ---- allocation and release ------------------------------------------------------------

    def _serve_decoding(self, step_in_flight: StepInFlight | None) -> tuple[bool, int]:
        """Fill a slot for each decoding request; nothing is preempted."""
        self._num_empty -= self._batch
        return False, 0

    def _demand_of(self, v: int) -> int:
        """Nothing."""
        return 0

    def _blocks_for(self, request: Running, tokens: int) -> int:
        """Return 0: the reservation covers them."""
        return 0

    def _refusal(self, request: Running, found: Found, tokens: int) -> str | None:
        sequence = self._sequence(request.index)
        return self._allocator.refusal(sequence, NO_HIT, tokens, idle=not self._running)

    def _admit(self, request: Running, found: Found, now_ps: int) -> None:
        """Admit the head of the queue and place its reservation."""
        super()._admit(request, found, now_ps)
        allocator, sequence = self._allocator, self._sequence(request.index)
        allocator.admit(sequence, NO_HIT, request.num_tokens)
        self._cache.take(allocator.num_held(sequence))
        self._num_empty += allocator.num_empty(sequence, 0)
        request.last_block_ps = now_ps

    def _give_up(self, request: Running, published: int, now_ps: int) -> None:
        """Free a request's run and record the slots that it never filled."""
        allocator, sequence = self._allocator, self._sequences.pop(request.index)
        slots = allocator.num_empty(sequence, request.num_computed_tokens)
        self._num_empty -= slots
        self.recorder.never(request.last_block_ps, now_ps, slots)
        self._cache.num_blank += allocator.num_held(sequence)
        allocator.release(sequence)

    def _within_memory(self, steps: int) -> int:
        """Return ``steps``: memory never runs out."""
        return steps

    # ---- memory over time ------------------------------------------------------------------

    def usage_now(self) -> Usage:
        """As in the leaper, with the allocator's round-up."""
        return super().usage_now()._replace(padding=self._allocator.num_padding)

    def _account(self, now_ps: int) -> None:
        self._account_runs(now_ps)
        super()._account(now_ps)

    def _account_runs(self, until_ps: int) -> None:
        """Record round-up and holes, which were constant since the last event."""
        padding = self._allocator.num_padding
        self.recorder.contiguous(self._since_ps, until_ps, padding, self._hole)

    def _account_steps(self, v: int, steps: int, first_ps: int, slope_ps: int) -> None:
        """Record integrals over ``steps`` intervals of a window; slots are filled in between."""
        ps, batch = steps_ps(first_ps, slope_ps, steps), self._batch
        until_ps = self._since_ps + ps
        self._account_runs(until_ps)
        self._since_ps = until_ps
        self.recorder.sums(
            until_ps,
            ps,
            self._cache.num_blank * ps,
            0,
            self._num_empty * ps - weighted_steps(first_ps, slope_ps, steps) * batch,
            0,
            len(self._running),
        )
        self._num_empty -= batch * (steps - 1)

    def _check_memory(self) -> None:
        allocator = self._allocator
        allocator.check_invariants()
        assert allocator.owners() == self._running.keys(), "runs of no request"
        assert allocator.placement.num_free == self._cache.num_free, "free slots are off"
        empty = sum(
            allocator.num_empty(self._sequences[index], self._computed(request))
            for index, request in self._running.items()
        )
        assert empty == self._num_empty, "empty slots are off"
