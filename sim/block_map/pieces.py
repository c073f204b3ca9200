"""What lies where in a pool at one instant: stretches of slots that hold the same thing.

    place   0          16                          48
            [ null    ][ tokens of request 7  |....][ cached ...
              unusable   token                 future

Places are slots from 0 to the pool's end. What no piece covers is blank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.metrics.shares import PRIMITIVES

if TYPE_CHECKING:
    from kvsim.policies.sequence import Sequence

CODE: Final = {name: code for code, name in enumerate(PRIMITIVES)}
"""Number of each primitive of KV memory."""

Residency = tuple[int, int]
"""A request's index, and how often it was put out before."""


class Empty(NamedTuple):
    """Owned slots without a token yet; the first is for token ``token`` of its owner."""

    place: int
    num_slots: int
    residency: Residency
    token: int


class Pieces:
    """Stretches ``(place, slots, code, owner, owners)``; places in no order, no two overlap.

    ``owner``: one of the requests that hold it, -1 where nobody does; ``owners``: how many do.
    ``empties`` are among ``rows`` as ``future``: whether they ever fill is known later.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.empties: list[Empty] = []

    def add(
        self, state: str, place: int, num_slots: int, owner: int = -1, num_owners: int = 0
    ) -> None:
        """Add a stretch; one without slots is left out."""
        if num_slots > 0:
            self.rows.append((place, num_slots, CODE[state], owner, num_owners))

    def add_empty(self, place: int, num_slots: int, residency: Residency, token: int) -> None:
        """Add slots that wait for the owner's tokens from ``token`` on."""
        if num_slots > 0:
            self.add("future", place, num_slots, residency[0], 1)
            self.empties.append(Empty(place, num_slots, residency, token))


def residency_of(sequence: Sequence) -> Residency:
    """Who owns, since when: a sequence that is put out and comes back owns anew."""
    return sequence.index, sequence.num_preemptions
