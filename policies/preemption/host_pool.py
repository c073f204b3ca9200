"""Host memory for the blocks of swapped sequences, as a number of blocks for each sequence.

Host blocks are interchangeable, and no lookup reads them. So a count for each sequence is enough.
"""

from __future__ import annotations


class HostPool:
    """``num_blocks`` blocks of host memory of one rank; each call is O(1).

    ``num_used`` blocks are held now; ``peak_used`` is the maximum so far.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_used = 0
        self.peak_used = 0
        self._held: dict[int, int] = {}

    def fits(self, num_blocks: int) -> bool:
        """Whether ``num_blocks`` blocks are free."""
        return self.num_used + num_blocks <= self.num_blocks

    def put(self, index: int, num_blocks: int) -> None:
        """Take room for all blocks of sequence ``index``, which must fit."""
        assert self.fits(num_blocks), "the host is full"
        assert index not in self._held, f"sequence {index} is on the host already"
        self._held[index] = num_blocks
        self.num_used += num_blocks
        self.peak_used = max(self.peak_used, self.num_used)

    def take(self, index: int) -> int:
        """Free the blocks of sequence ``index``; return how many it held."""
        num_blocks = self._held.pop(index)
        self.num_used -= num_blocks
        return num_blocks

    def owners(self) -> set[int]:
        """Indices of the sequences that are on the host."""
        return set(self._held)

    def check_invariants(self) -> None:
        """Verify the counts; O(owners)."""
        assert self.num_used == sum(self._held.values()), "host blocks are lost"
        assert 0 <= self.num_used <= self.peak_used <= self.num_blocks, "the host is overfull"
        assert all(count > 0 for count in self._held.values()), "a sequence holds 0 host blocks"
