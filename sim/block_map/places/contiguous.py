"""Runs of a contiguous pool, at their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.block_map.pieces import Pieces, residency_of

if TYPE_CHECKING:
    from kvsim.policies.allocators import ContiguousAllocator
    from kvsim.policies.batching import SchedulerState


class ContiguousPlaces:
    """Reads a contiguous allocator; nothing is cached, so nothing is ever evicted."""

    def __init__(self, allocator: ContiguousAllocator) -> None:
        self._allocator = allocator

    def pieces(self, state: SchedulerState) -> Pieces:
        """Each run: tokens, the rest of the reservation, round-up; O(running)."""
        pieces, allocator = Pieces(), self._allocator
        for owners, filled in ((state.running, "token"), (state.ended, "padding")):
            for sequence in owners:
                place, index = allocator.address_of(sequence), sequence.index
                computed, reserved = sequence.num_computed_tokens, sequence.reserved
                pieces.add(filled, place, computed, index, 1)
                pieces.add_empty(
                    place + computed, reserved - computed, residency_of(sequence), computed
                )
                round_up = allocator.num_held(sequence) - reserved
                pieces.add("padding", place + reserved, round_up, index, 1)
        return pieces

    def take_evicted(self) -> list[tuple[int, int]]:
        """Places and slots that lost cached content since the last call."""
        return []
