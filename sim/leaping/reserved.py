"""Leaps over contiguous reservations that are never outgrown: decoding takes no memory.

Everything is taken at admission, where the leaper asks the allocator itself. Between admissions and
endings runs, holes and round-up stay as they are; all that moves is how much of the reservations is
filled, by one token a step for each decoding member. So a leap's memory is a constant and one
arithmetic series, and it ends where members end, an arrival finds an empty queue or the cost's form
changes: memory never runs out in between, and nobody is preempted.
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
    from kvsim.sim.leaping.state import Member, StepInFlight


class ReservedLeaper(Leaper):
    """See the module docstring; a block is one slot, of which the cache keeps the free count."""

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
        """As the leaper's; a head that does not fit an empty pool is refused (as stuck)."""
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
        """Requests refused by the last calls, as stuck."""
        refused, self._refused = self._refused, []
        return refused

    def _refuse_stuck(self, now_ps: int) -> None:
        index = self._waiting.popleft()
        self._sequences.pop(index)
        del self._members[index]
        reason = "does not fit even when nothing else runs"
        self.recorder.refused(index, reason)
        if self._listener is not None:
            self._listener.withdrawn(self, index, now_ps, reason)
        self._refused.append(index)
        self.recorder.queue(now_ps, len(self._waiting))

    def _sequence(self, index: int) -> Sequence:
        """What the allocator sees of a request: its prompt; decoding members are not kept up."""
        sequence = self._sequences.get(index)
        if sequence is None:
            sequence = self._sequences[index] = self._requests.sequence(index)
        return sequence

    # ---- taking and giving back ------------------------------------------------------------

    def _serve_decoding(self, flight: StepInFlight | None) -> tuple[bool, int]:
        """Fill a slot for each decoding member; nobody gives way."""
        self._num_empty -= self._batch
        return False, 0

    def _demand_of(self, v: int) -> int:
        """Nothing."""
        return 0

    def _blocks_for(self, member: Member, tokens: int) -> int:
        """None: the reservation covers them."""
        return 0

    def _refusal(self, member: Member, found: Found, tokens: int) -> str | None:
        sequence = self._sequence(member.index)
        return self._allocator.refusal(sequence, NO_HIT, tokens, idle=not self._running)

    def _admit(self, member: Member, found: Found, now_ps: int) -> None:
        """Seat the queue's head and place its reservation."""
        super()._admit(member, found, now_ps)
        allocator, sequence = self._allocator, self._sequence(member.index)
        allocator.admit(sequence, NO_HIT, member.num_tokens)
        self._cache.take(allocator.num_held(sequence))
        self._num_empty += allocator.num_empty(sequence, 0)
        member.last_block_ps = now_ps

    def _give_up(self, member: Member, published: int, now_ps: int) -> None:
        """Give back a member's run and account for the slots it never filled."""
        allocator, sequence = self._allocator, self._sequences.pop(member.index)
        slots = allocator.num_empty(sequence, member.num_computed_tokens)
        self._num_empty -= slots
        self.recorder.never(member.last_block_ps, now_ps, slots)
        self._cache.num_blank += allocator.num_held(sequence)
        allocator.release(sequence)

    def _within_memory(self, steps: int) -> int:
        """Memory lasts for ever."""
        return steps

    # ---- memory over time ------------------------------------------------------------------

    def usage_now(self) -> Usage:
        """As the leaper's, with what the allocator rounds up."""
        return super().usage_now()._replace(padding=self._allocator.num_padding)

    def _account(self, now_ps: int) -> None:
        self._account_runs(now_ps)
        super()._account(now_ps)

    def _account_runs(self, until_ps: int) -> None:
        """Round-up and holes, constant since the last event."""
        padding = self._allocator.num_padding
        self.recorder.contiguous(self._since_ps, until_ps, padding, self._hole)

    def _account_steps(self, v: int, steps: int, first_ps: int, slope_ps: int) -> None:
        """Integrals over ``steps`` intervals inside one window, between which slots are filled."""
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
        assert allocator.owners() == self._running.keys(), "runs without an owner"
        assert allocator.placement.num_free == self._cache.num_free, "free slots are off"
        empty = sum(
            allocator.num_empty(self._sequences[index], self._computed(member))
            for index, member in self._running.items()
        )
        assert empty == self._num_empty, "empty slots are off"
