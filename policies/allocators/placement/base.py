"""The seam of placement: runs of tokens at real addresses, for allocators without block tables.

Addresses are token slots from 0. A placement may round a run up; whoever asks for a size gets at
least that much, and what was rounded up is the asker's padding.
"""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    """Where a run of tokens goes.

    Which runs are free decides everything: two placements with the same runs taken give the same
    addresses, whatever came before.
    """

    name: str

    def __init__(self, num_tokens: int) -> None: ...

    @property
    def num_free(self) -> int:
        """Free tokens, in runs of any size."""
        ...

    def rounded(self, num_tokens: int) -> int:
        """Tokens that a run of ``num_tokens`` really takes."""
        ...

    def alloc(self, num_tokens: int) -> int | None:
        """Take a run and return its address; ``None`` (nothing changes) where no hole holds it.

        It succeeds exactly when ``rounded(num_tokens) <= largest_hole()``.
        """
        ...

    def free(self, address: int) -> None:
        """Give back the run at ``address``; neighbouring holes become one."""
        ...

    def size_of(self, address: int) -> int:
        """Tokens of the run at ``address``, rounded up."""
        ...

    def room_at(self, address: int) -> int:
        """Most tokens that the run at ``address`` could hold where it is."""
        ...

    def extend(self, address: int, num_tokens: int) -> None:
        """Let the run at ``address`` hold ``num_tokens``, at most ``room_at`` of them, in place."""
        ...

    def largest_hole(self) -> int:
        """Tokens of the largest run that could be taken now."""
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
