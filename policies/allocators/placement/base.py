"""The contract of placement: runs of tokens at real addresses, without block tables.

Addresses are token slots from 0. A placement may round a run up. The caller gets at least the size
that it asked for. The round-up is the caller's padding.
"""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    """Where a run of tokens is placed.

    The taken runs alone decide. Two placements with the same taken runs return the same addresses,
    whatever their history.
    """

    name: str

    def __init__(self, num_tokens: int) -> None: ...

    @property
    def num_free(self) -> int:
        """Number of free tokens, in runs of any size."""
        ...

    def rounded(self, num_tokens: int) -> int:
        """Return the tokens that a run of ``num_tokens`` really takes."""
        ...

    def alloc(self, num_tokens: int) -> int | None:
        """Take a run and return its address; ``None`` (nothing changes) where no hole holds it.

        It succeeds exactly when ``rounded(num_tokens) <= largest_hole()``.
        """
        ...

    def free(self, address: int) -> None:
        """Free the run at ``address``; neighbouring holes become one."""
        ...

    def size_of(self, address: int) -> int:
        """Return the tokens of the run at ``address``, rounded up."""
        ...

    def room_at(self, address: int) -> int:
        """Return the most tokens that the run at ``address`` could hold in place."""
        ...

    def extend(self, address: int, num_tokens: int) -> None:
        """Extend the run at ``address`` in place to ``num_tokens``, at most ``room_at``."""
        ...

    def largest_hole(self) -> int:
        """Return the tokens of the largest run that could be taken now."""
        ...

    def check_invariants(self) -> None:
        """Verify that runs and holes tile the pool; O(runs)."""
        ...


def check_tiles(runs: dict[int, int], holes: dict[int, int], num_tokens: int) -> None:
    """Verify that runs and holes (address: tokens) cover the pool, each token once."""
    assert not runs.keys() & holes.keys(), "a run is both taken and free"
    upto = 0
    for address, length in sorted((runs | holes).items()):
        assert length > 0, f"the run at {address} is empty"
        assert address == upto, f"a gap or an overlap before {address}: runs so far end at {upto}"
        upto = address + length
    assert upto == num_tokens, f"runs end at {upto}, the pool at {num_tokens}"
