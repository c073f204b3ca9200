"""Buddies: runs are powers of two, and a freed run joins its other half (Knuth, TAOCP 1, 2.5).

A pool size that is not a power of two is cut into arenas by its binary digits:

    15,728 =  [0: 8192][8192: 4096][12288: 2048][14336: 1024][15360: 256][64][32][16]

Every arena begins at a multiple of twice its size. So the buddy of a whole arena would begin where
the next, smaller arena begins. That buddy is never a hole of the same size, so arenas never join.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from kvsim.policies.allocators.placement.base import check_tiles


class Buddy:
    """The smallest hole that is large enough, of equal ones the lowest; free buddies join."""

    name = "buddy"

    def __init__(self, num_tokens: int) -> None:
        self._num_tokens = self._num_free = num_tokens
        self._holes: list[list[int]] = [[] for _ in range(num_tokens.bit_length())]
        self._runs: dict[int, int] = {}
        address = 0
        for order in reversed(range(num_tokens.bit_length())):
            if num_tokens >> order & 1:
                self._holes[order].append(address)
                address += 1 << order

    @property
    def num_free(self) -> int:
        """Free tokens."""
        return self._num_free

    def rounded(self, num_tokens: int) -> int:
        """Return the next power of two."""
        assert num_tokens > 0, "a run holds at least one token"
        return 1 << (num_tokens - 1).bit_length()

    def alloc(self, num_tokens: int) -> int | None:
        """Halve the smallest hole that holds the run until it fits; O(orders + holes)."""
        wanted = self.rounded(num_tokens).bit_length() - 1
        for order in range(wanted, len(self._holes)):
            if self._holes[order]:
                break
        else:
            return None
        address = self._holes[order].pop(0)
        while order > wanted:
            order -= 1
            insort(self._holes[order], address + (1 << order))
        self._runs[address] = wanted
        self._num_free -= 1 << wanted
        return address

    def free(self, address: int) -> None:
        """Join the run with its buddy as long as that is free; O(orders + holes)."""
        order = self._runs.pop(address)
        self._num_free += 1 << order
        while self._take_hole(order, address ^ (1 << order)):
            address &= ~(1 << order)
            order += 1
        insort(self._holes[order], address)

    def size_of(self, address: int) -> int:
        """Return the tokens of a run."""
        return 1 << self._runs[address]

    def room_at(self, address: int) -> int:
        """Return the run and the free buddies above it; O(orders x log holes)."""
        order = self._runs[address]
        while not address >> order & 1 and self._is_hole(order, address + (1 << order)):
            order += 1
        return 1 << order

    def extend(self, address: int, num_tokens: int) -> None:
        """Join the run with free buddies above it until it is large enough; O(orders + holes)."""
        assert num_tokens <= self.room_at(address), f"no room above the run at {address}"
        order = self._runs[address]
        while 1 << order < num_tokens:
            self._take_hole(order, address + (1 << order))
            self._num_free -= 1 << order
            order += 1
        self._runs[address] = order

    def largest_hole(self) -> int:
        """Return the largest power of two that is free in one piece."""
        for order in reversed(range(len(self._holes))):
            if self._holes[order]:
                return 1 << order
        return 0

    def _is_hole(self, order: int, address: int) -> bool:
        holes = self._holes[order]
        place = bisect_left(holes, address)
        return place < len(holes) and holes[place] == address

    def _take_hole(self, order: int, address: int) -> bool:
        """Remove one hole if it is there; return whether it was."""
        if not self._is_hole(order, address):
            return False
        holes = self._holes[order]
        del holes[bisect_left(holes, address)]
        return True

    def check_invariants(self) -> None:
        """Verify tiles, alignment, and that free buddies have joined."""
        holes = {a: 1 << order for order, found in enumerate(self._holes) for a in found}
        runs = {address: 1 << order for address, order in self._runs.items()}
        check_tiles(runs, holes, self._num_tokens)
        assert sum(holes.values()) == self._num_free, "free count is off"
        assert all(found == sorted(found) for found in self._holes), "holes are out of order"
        for address, length in (runs | holes).items():
            assert address % length == 0, f"the run at {address} is not aligned to its {length}"
        for address, length in holes.items():
            assert holes.get(address ^ length) != length, f"buddies at {address} are both free"
