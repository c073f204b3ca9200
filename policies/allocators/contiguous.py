"""One run of token slots per sequence, reserved as a whole at admission (Orca, OSDI 2022).

Source: the baselines of the PagedAttention paper (SOSP 2023, sections 3.1 and 6.1) and Orca's
admission rule (OSDI 2022, Algorithm 1). A request is admitted when its whole reservation can be
placed. Only the head of the queue is tried. Nothing is shared and nothing is cached.

    [  computed  |  will be filled  |  never filled  | round-up ]
    token          future             never            padding
                 '---------- empty ----------------'
    '---------------- reservation --------------------'

Most reservations cover all tokens that a sequence will use. Then the sequence always has room and
is never preempted. A reservation that is too small is renewed. The new length is what the
reservation rule gives now, but at least twice the previous room for the output, and at most the
model length. There are three cases. If the slots that the step needs are free behind the run, it
grows in place, up to the new length or the end of the hole. Otherwise it moves to a hole for the
whole new length, and its computed tokens are copied. If there is no such hole, a victim is
preempted by the rules of preemption.

Compaction helps if the free memory is enough for the head of the queue in sum, but in no single
hole. Then runs slide together (``FreeRuns.slide``), and their computed tokens are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.policies.allocators.base import Hit, Usage
from kvsim.policies.allocators.placement.free_runs import FreeRuns
from kvsim.policies.allocators.relocations import Relocations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.placement import Placement
    from kvsim.policies.allocators.reservation import Reservation
    from kvsim.policies.sequence import Sequence

NO_HIT: Final = Hit(0, (), 0)


class _Renewal(NamedTuple):
    """What a sequence had computed and reserved when its reservation became too small."""

    num_computed_tokens: int
    reserved_before: int


class ContiguousAllocator:
    """Runs of one pool; a sequence holds the run at its address, rounded up by the placement.

    ``num_padding`` slots in total are round-up. ``compacts``: runs slide together to make room for
    the head of the queue.
    """

    num_evicted = 0

    def __init__(
        self,
        reservation: Reservation,
        placement: Placement,
        max_model_len: int,
        *,
        compacts: bool = False,
    ) -> None:
        assert isinstance(placement, FreeRuns) or not compacts, "buddies do not slide"
        self.uses_oracle = reservation.uses_oracle
        self.placement = placement
        self._relocated = Relocations()
        moves = compacts or not reservation.covers_all
        self.relocations = self._relocated if moves else None
        self.num_padding = 0
        self._reservation = reservation
        self._max_model_len = max_model_len
        self._compacts = compacts
        self._addresses: dict[int, int] = {}
        self._owners: dict[int, Sequence] = {}
        self._renewals: dict[int, _Renewal] = {}  # the last one of each sequence

    def address_of(self, sequence: Sequence) -> int:
        """Return the first slot of a running sequence."""
        return self._addresses[sequence.index]

    @property
    def num_spare(self) -> int:
        """Number of free slots, in one run or several."""
        return self.placement.num_free

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Return the whole reservation with its round-up."""
        return self.placement.rounded(self._reservation.tokens(sequence))

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return 0: the reservation covers all."""
        return 0

    def find_hit(self, sequence: Sequence) -> Hit:
        """Return no hit: nothing is cached."""
        return NO_HIT

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Return ``blocks`` if no hole holds the whole reservation and compaction makes none."""
        placement = self.placement
        room = placement.num_free if self._compacts else placement.largest_hole()
        rounded = placement.rounded(self._reservation.tokens(sequence))
        return "blocks" if rounded > room else None

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Place the whole reservation."""
        reserved = self._reservation.tokens(sequence)
        address = self.placement.alloc(reserved)
        if address is None and self._compacts:
            self._compact(reserved)
            address = self.placement.alloc(reserved)
        assert address is not None, f"{sequence} was admitted, but no hole holds it"
        self._own(sequence, address, reserved)

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Renew the reservation if it does not hold the tokens; see the module docstring."""
        needed = sequence.num_computed_tokens + new_tokens
        if needed <= sequence.reserved:
            return True
        assert not self._reservation.covers_all, f"{sequence} outgrows its reservation"
        before = sequence.reserved
        renewed = self._renewed(sequence, needed)
        address = self._addresses[sequence.index]
        room = self.placement.room_at(address)
        if needed <= room:
            self.num_padding -= self._padding(sequence)
            self.placement.extend(address, min(renewed, room))
            self._own(sequence, address, min(renewed, room))
            self._relocated.num_grown += 1
        else:
            moved_to = self.placement.alloc(renewed)
            if moved_to is None:
                self._relocated.num_lacking += 1
                return False
            self._disown(sequence)
            self._own(sequence, moved_to, renewed)
            self._relocated.move(sequence.num_computed_tokens)
        self._renewals[sequence.index] = _Renewal(sequence.num_computed_tokens, before)
        return True

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Do nothing: nothing is cached."""

    def finish(self, sequence: Sequence) -> None:
        """Free the run."""
        self.release(sequence)

    def release(self, sequence: Sequence) -> None:
        """Free the run; a renewal for a step that does not run is undone."""
        self._disown(sequence)
        renewal = self._renewals.pop(sequence.index, None)
        if renewal is not None and renewal.num_computed_tokens == sequence.num_computed_tokens:
            sequence.reserved = renewal.reserved_before

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether the next step takes memory: the first after admission, or after a renewal."""
        if sequence.num_computed_tokens == 0:
            return True
        renewal = self._renewals.get(sequence.index)
        return renewal is not None and renewal.num_computed_tokens == sequence.num_computed_tokens

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the rest of the reservation; the round-up is padding."""
        return sequence.reserved - tokens

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; O(running)."""
        empty = sum(sequence.reserved - sequence.num_computed_tokens for sequence in running)
        return Usage(self.placement.num_free, 0, empty, 0, self.num_padding)

    def fragmented(self, sequence: Sequence) -> bool:
        """Whether free slots are enough for the reservation in sum, but no hole holds it."""
        reserved = self._reservation.tokens(sequence)
        placement = self.placement
        return placement.largest_hole() < placement.rounded(reserved) and (
            reserved <= placement.num_free
        )

    def num_held(self, sequence: Sequence) -> int:
        """Return the slots of the run, including its round-up."""
        return self.placement.size_of(self._addresses[sequence.index])

    def owners(self) -> set[int]:
        """Return the sequences that hold a run."""
        return set(self._addresses)

    # ---- runs ------------------------------------------------------------------------------

    def _renewed(self, sequence: Sequence, needed: int) -> int:
        """Return the new length of a reservation that is too small; doubling keeps copies few."""
        doubled = 2 * sequence.reserved - sequence.prompt_tokens
        tokens = max(self._reservation.tokens(sequence), doubled, needed)
        return max(min(tokens, self._max_model_len), needed)

    def _own(self, sequence: Sequence, address: int, reserved: int) -> None:
        self._addresses[sequence.index] = address
        self._owners[address] = sequence
        sequence.reserved = reserved
        self.num_padding += self._padding(sequence)

    def _disown(self, sequence: Sequence) -> None:
        self.num_padding -= self._padding(sequence)
        address = self._addresses.pop(sequence.index)
        del self._owners[address]
        self.placement.free(address)

    def _padding(self, sequence: Sequence) -> int:
        return self.placement.size_of(self._addresses[sequence.index]) - sequence.reserved

    def _compact(self, num_tokens: int) -> None:
        """Slide runs together until a hole holds ``num_tokens``."""
        assert isinstance(self.placement, FreeRuns), "buddies do not slide"
        for old, new in self.placement.slide(num_tokens):
            sequence = self._owners.pop(old)
            self._owners[new] = sequence
            self._addresses[sequence.index] = new
            self._relocated.slide(sequence.num_computed_tokens)

    def check_invariants(self) -> None:
        """Verify placement, round-up, and that each run belongs to one sequence."""
        self.placement.check_invariants()
        assert len(self._owners) == len(self._addresses), "two sequences hold one run"
        padding = 0
        for address, sequence in self._owners.items():
            assert self._addresses[sequence.index] == address, f"{sequence} is not at its address"
            assert sequence.num_computed_tokens <= sequence.reserved, (
                f"{sequence} outgrew its reservation"
            )
            padding += self._padding(sequence)
            assert self._padding(sequence) >= 0, f"{sequence} reserves more than its run"
        assert padding == self.num_padding, "padding count is off"
