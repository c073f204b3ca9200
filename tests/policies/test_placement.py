"""Placements against a naive bitmap, and what each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvsim.policies.allocators.placement import PLACEMENTS, make_placement
from kvsim.policies.allocators.placement.free_runs import FreeRuns

if TYPE_CHECKING:
    from kvsim.policies.allocators.placement import Placement


class Bitmap:
    """One flag a token. Which tokens are taken decides what comes next, as `Placement` says."""

    def __init__(self, name: str, num_tokens: int) -> None:
        self.name = name
        self.taken = [False] * num_tokens

    def holes(self) -> list[tuple[int, int]]:
        """(tokens, address) of each hole: maximal free runs, or for buddies aligned pieces."""
        if self.name == "buddy":
            return self._aligned_holes()
        found: list[tuple[int, int]] = []
        length = 0
        for address, taken in enumerate([*self.taken, True]):
            if taken and length:
                found.append((length, address - length))
            length = 0 if taken else length + 1
        return found

    def _aligned_holes(self) -> list[tuple[int, int]]:
        """Cut each arena in halves until a piece is all free or all taken."""
        found: list[tuple[int, int]] = []

        def cut(address: int, length: int) -> None:
            piece = self.taken[address : address + length]
            if not any(piece):
                found.append((length, address))
            elif not all(piece):
                cut(address, length // 2)
                cut(address + length // 2, length // 2)

        address = 0
        for digit in reversed(range(len(self.taken).bit_length())):
            if len(self.taken) >> digit & 1:
                cut(address, 1 << digit)
                address += 1 << digit
        return found

    def rounded(self, num_tokens: int) -> int:
        length = 1
        while length < num_tokens:
            length *= 2
        return length if self.name == "buddy" else num_tokens

    def alloc(self, num_tokens: int) -> int | None:
        length = self.rounded(num_tokens)
        fitting = [hole for hole in self.holes() if hole[0] >= length]
        if not fitting:
            return None
        if self.name == "first-fit":
            address = min(address for _, address in fitting)
        else:
            address = min(fitting)[1]
        self.taken[address : address + length] = [True] * length
        return address

    def free(self, address: int, num_tokens: int) -> None:
        length = self.rounded(num_tokens)
        self.taken[address : address + length] = [False] * length

    def fits_at(self, address: int, held: int, num_tokens: int) -> bool:
        """Whether a run that holds ``held`` tokens could hold more where it is."""
        held, length = self.rounded(held), self.rounded(num_tokens)
        if address + length > len(self.taken) or any(self.taken[address + held : address + length]):
            return False
        if self.name != "buddy":
            return True
        start = 0  # of the arena
        for digit in reversed(range(len(self.taken).bit_length())):
            size = 1 << digit if len(self.taken) >> digit & 1 else 0
            if start <= address < start + size:
                return (address - start) % length == 0 and length <= size
            start += size
        return False

    def slide(self, runs: dict[int, int], num_tokens: int) -> list[tuple[int, int]]:
        """The lowest runs that do not touch, down to the next, until a hole is large enough."""
        moves = []
        upto = 0
        for address in sorted(runs):
            if max(self.holes())[0] >= num_tokens:
                break
            if address > upto:
                moves.append((address, upto))
                self.free(address, runs[address])
                self.taken[upto : upto + runs[address]] = [True] * runs[address]
            upto += runs[address]
        return moves


class Machine(RuleBasedStateMachine):
    """Random runs taken and given back, on a placement and on a bitmap."""

    @initialize(name=st.sampled_from(sorted(PLACEMENTS)), num_tokens=st.integers(1, 90))
    def start(self, name: str, num_tokens: int) -> None:
        self.placement: Placement = make_placement(name, num_tokens)
        self.twin = Bitmap(name, num_tokens)
        self.runs: dict[int, int] = {}

    @rule(num_tokens=st.integers(1, 40))
    def take(self, num_tokens: int) -> None:
        fits = self.placement.rounded(num_tokens) <= self.placement.largest_hole()
        address = self.placement.alloc(num_tokens)
        assert address == self.twin.alloc(num_tokens)
        assert fits == (address is not None)
        if address is not None:
            assert self.placement.size_of(address) == self.twin.rounded(num_tokens)
            self.runs[address] = num_tokens

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if self.runs:
            address = data.draw(st.sampled_from(sorted(self.runs)))
            self.placement.free(address)
            self.twin.free(address, self.runs.pop(address))

    @rule(data=st.data(), more=st.integers(1, 40))
    def grow_in_place(self, data: st.DataObject, more: int) -> None:
        if self.runs:
            address = data.draw(st.sampled_from(sorted(self.runs)))
            held = self.runs[address]
            wanted = held + more
            fits = wanted <= self.placement.room_at(address)
            assert fits == self.twin.fits_at(address, held, wanted)
            if fits:
                self.placement.extend(address, wanted)
                length = self.twin.rounded(wanted)
                assert self.placement.size_of(address) == length
                self.twin.taken[address : address + length] = [True] * length
                self.runs[address] = wanted

    @rule(num_tokens=st.integers(1, 90))
    def slide_together(self, num_tokens: int) -> None:
        placement = self.placement
        largest = placement.largest_hole()
        if isinstance(placement, FreeRuns) and largest < num_tokens <= placement.num_free:
            moves = placement.slide(num_tokens)
            assert moves == self.twin.slide(self.runs, num_tokens)
            assert placement.largest_hole() >= num_tokens
            for old, new in moves:
                self.runs[new] = self.runs.pop(old)
                assert placement.size_of(new) == self.runs[new]

    @invariant()
    def same_holes(self) -> None:
        self.placement.check_invariants()
        assert self.placement.num_free == self.twin.taken.count(False)
        assert self.placement.largest_hole() == max(self.twin.holes(), default=(0, 0))[0]


TestPlacements = Machine.TestCase


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_every_placement_is_whole_again_when_all_is_given_back(name: str) -> None:
    placement = make_placement(name, 15_728)
    assert PLACEMENTS[name].name == name
    largest = placement.largest_hole()
    addresses = [placement.alloc(size) for size in (300, 1, 2048, 77, 512, 300)]
    for address in addresses[::2] + addresses[1::2]:
        assert address is not None
        placement.free(address)
    placement.check_invariants()
    assert (placement.num_free, placement.largest_hole()) == (15_728, largest)


def test_buddy_arenas_are_the_binary_digits_of_the_pool() -> None:
    buddy = make_placement("buddy", 15_728)
    assert buddy.largest_hole() == 8192
    assert [buddy.alloc(2048) for _ in range(8)] == [12288, 8192, 10240, 0, 2048, 4096, 6144, None]
    assert buddy.num_free == 15_728 - 7 * 2048 == 1024 + 256 + 64 + 32 + 16
    assert buddy.alloc(1025) is None
    assert buddy.alloc(600) == 14336  # rounded to 1,024
    assert buddy.alloc(17) == 15680  # 256, 64, then 32
    assert [buddy.rounded(size) for size in (1, 2, 3, 1024, 1025)] == [1, 2, 4, 1024, 2048]


def test_first_and_best_fit_choose_different_holes() -> None:
    for name, expected in (("first-fit", 0), ("best-fit", 60)):
        placement = make_placement(name, 100)
        runs = [placement.alloc(size) for size in (50, 10, 20, 20)]
        assert runs == [0, 50, 60, 80]
        placement.free(0)
        placement.free(60)
        assert placement.alloc(20) == expected
        assert placement.rounded(20) == placement.size_of(expected) == 20


def test_buddies_grow_where_they_are_the_lower_half() -> None:
    buddy = make_placement("buddy", 64)
    low, high = buddy.alloc(8), buddy.alloc(8)
    assert (low, high) == (0, 8)
    assert [buddy.room_at(address) for address in (0, 8)] == [8, 8], "each is in the other's way"
    buddy.free(8)
    assert buddy.room_at(0) == 64
    buddy.extend(0, 17)
    assert (buddy.size_of(0), buddy.num_free) == (32, 32)
    with pytest.raises(AssertionError, match="no room above the run at 0"):
        buddy.extend(0, 65)
    quarters = make_placement("buddy", 32)
    assert [quarters.alloc(8) for _ in range(4)] == [0, 8, 16, 24]
    quarters.free(16)
    assert quarters.room_at(8) == 8, "the hole above it is another run's buddy"


def test_a_slide_stops_at_the_first_hole_that_is_large_enough() -> None:
    placement = make_placement("first-fit", 100)
    runs = [placement.alloc(size) for size in (10, 20, 10, 20, 10, 30)]
    assert runs == [0, 10, 30, 40, 60, 70]
    for address in (0, 30, 60):
        placement.free(address)
    assert isinstance(placement, FreeRuns)
    assert placement.largest_hole() == 10
    assert placement.slide(20) == [(10, 0)]
    assert placement.slide(30) == [(40, 20)], "the lowest hole: behind the run that slid"
    assert (placement.largest_hole(), placement.alloc(30)) == (30, 40)
    with pytest.raises(AssertionError, match="sliding makes no room"):
        placement.slide(1)


def test_an_unknown_placement_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="'slab' is unknown; choices: best-fit, buddy, first"):
        make_placement("slab", 10)
