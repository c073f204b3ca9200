"""One run of token slots per sequence, reserved whole at admission (Orca, OSDI 2022).

Source: the baselines of the PagedAttention paper (SOSP 2023, sections 3.1 and 6.1) and Orca's
admission rule (OSDI 2022, Algorithm 1): a request enters when its whole reservation can be placed,
and only the head of the queue is tried. No sequence ever lacks room afterwards, so none is
preempted; nothing is shared and nothing is cached.

    [  computed  |  will be filled  |  never filled  | round-up ]
    token          future             never            padding
                 '---------- empty ----------------'
    '---------------- reservation --------------------'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.base import Hit, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.placement import Placement
    from kvsim.policies.allocators.reservation import Reservation
    from kvsim.policies.sequence import Sequence

NO_HIT: Final = Hit(0, (), 0)


class ContiguousAllocator:
    """Runs of one pool; a sequence owns the run at its address, rounded up by the placement."""

    num_evicted = 0

    def __init__(self, reservation: Reservation, placement: Placement) -> None:
        self.uses_oracle = reservation.uses_oracle
        self.placement = placement
        self._reservation = reservation
        self._addresses: dict[int, int] = {}
        self._padding: dict[int, int] = {}
        self.num_padding = 0

    def address_of(self, sequence: Sequence) -> int:
        """First slot of a running sequence."""
        return self._addresses[sequence.index]

    def find_hit(self, sequence: Sequence) -> Hit:
        """Nothing is cached."""
        return NO_HIT

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """``blocks`` where no hole holds the whole reservation."""
        rounded = self.placement.rounded(self._reservation.tokens(sequence))
        return "blocks" if rounded > self.placement.largest_hole() else None

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Place the whole reservation."""
        reserved = self._reservation.tokens(sequence)
        address = self.placement.alloc(reserved)
        assert address is not None, f"{sequence} was admitted, but no hole holds it"
        padding = self.placement.size_of(address) - reserved
        self._addresses[sequence.index] = address
        self._padding[sequence.index] = padding
        self.num_padding += padding

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Nothing to do: the reservation covers all that the sequence will use."""
        tokens = sequence.computed + new_tokens
        assert tokens <= self._reservation.tokens(sequence), f"{sequence} outgrows its reservation"
        return True

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Nothing is cached."""

    def finish(self, sequence: Sequence) -> None:
        """Give back the run."""
        self.release(sequence)

    def release(self, sequence: Sequence) -> None:
        """Give back the run."""
        self.placement.free(self._addresses.pop(sequence.index))
        self.num_padding -= self._padding.pop(sequence.index)

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """All is taken at admission, which the first chunk follows."""
        return sequence.computed == 0

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """The rest of the reservation; the round-up is padding."""
        return self._reservation.tokens(sequence) - tokens

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Slots by what they hold; O(running)."""
        empty = sum(self.num_empty(sequence, sequence.computed) for sequence in running)
        return Usage(self.placement.num_free, 0, empty, 0, self.num_padding)

    def fragmented(self, sequence: Sequence) -> bool:
        """Enough in sum for the reservation, no hole that holds it with its round-up."""
        reserved = self._reservation.tokens(sequence)
        placement = self.placement
        return placement.largest_hole() < placement.rounded(reserved) and (
            reserved <= placement.num_free
        )

    def num_held(self, sequence: Sequence) -> int:
        """Slots of the run, round-up included."""
        return self.placement.size_of(self._addresses[sequence.index])

    def owners(self) -> set[int]:
        """Sequences that own a run."""
        return set(self._addresses)

    def check_invariants(self) -> None:
        """Verify placement, round-up, and that each run has one owner."""
        self.placement.check_invariants()
        held = {address: self.placement.size_of(address) for address in self._addresses.values()}
        assert len(held) == len(self._addresses), "two sequences own one run"
        assert self._addresses.keys() == self._padding.keys(), "padding without a run"
        assert self.num_padding == sum(self._padding.values()), "padding count is off"
