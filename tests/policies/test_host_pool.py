"""Host memory against a naive twin that names every block."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvsim.policies.preemption import HostPool


class HostPoolMachine(RuleBasedStateMachine):
    """The twin is a dict of block id to owner; room is what has no owner."""

    @initialize(num_blocks=st.integers(0, 12))
    def start(self, num_blocks: int) -> None:
        self.pool = HostPool(num_blocks)
        self.owner_of: dict[int, int | None] = dict.fromkeys(range(num_blocks))
        self.most = 0
        self.next_index = 0

    def _free(self) -> list[int]:
        return [block for block, owner in self.owner_of.items() if owner is None]

    @rule(num_blocks=st.integers(1, 6))
    def put(self, num_blocks: int) -> None:
        free = self._free()
        assert self.pool.fits(num_blocks) == (num_blocks <= len(free))
        if num_blocks > len(free):
            with pytest.raises(AssertionError, match="the host is full"):
                self.pool.put(self.next_index, num_blocks)
            return
        self.pool.put(self.next_index, num_blocks)
        for block in free[:num_blocks]:
            self.owner_of[block] = self.next_index
        self.next_index += 1
        self.most = max(self.most, len(self.owner_of) - len(self._free()))

    @precondition(lambda self: self.pool.owners())
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.pool.owners())))
        held = [block for block, owner in self.owner_of.items() if owner == index]
        assert self.pool.take(index) == len(held)
        for block in held:
            self.owner_of[block] = None

    @precondition(lambda self: self.pool.owners())
    @rule(data=st.data())
    def put_twice(self, data: st.DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.pool.owners())))
        if self.pool.fits(1):
            with pytest.raises(AssertionError, match="is on the host already"):
                self.pool.put(index, 1)

    @invariant()
    def is_the_twin(self) -> None:
        self.pool.check_invariants()
        assert self.pool.num_used == len(self.owner_of) - len(self._free())
        assert self.pool.owners() == {
            owner for owner in self.owner_of.values() if owner is not None
        }
        assert self.pool.peak_used == self.most


TestHostPool = HostPoolMachine.TestCase


@pytest.mark.parametrize("attribute", ["num_used", "peak_used"])
def test_a_wrong_count_is_noticed(attribute: str) -> None:
    pool = HostPool(4)
    pool.put(0, 3)
    setattr(pool, attribute, 2)
    with pytest.raises(AssertionError):
        pool.check_invariants()
