"""Tokens of a radix tree, which has no addresses: places that stay where they once were.

A tree counts tokens; where each one lies is nobody's business. To draw it, every token is given a
place (the lowest free one) when it is first seen, and keeps it: what a request has computed stays
where it is when it is published, and goes when it is evicted or given up.

    content   (name of a stretch, position)      in the tree; equal content has one place
              (request, position)                held by a request outside the tree
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvsim.sim.block_map.pieces import Pieces, residency_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from kvsim.policies.allocators import RadixAllocator
    from kvsim.policies.allocators.radix_tree import Node
    from kvsim.policies.batching import SchedulerState
    from kvsim.policies.sequence import Sequence
    from kvsim.policies.token_run import TokenRun

    Places = NDArray[np.int64]


class _Stretch(NamedTuple):
    """Places of the tokens from position ``start`` on; -1 where none is known yet."""

    start: int
    places: Places

    @property
    def stop(self) -> int:
        return self.start + len(self.places)

    def part(self, start: int, stop: int) -> Places:
        """Places of positions ``start`` to ``stop``, all of them within."""
        return self.places[start - self.start : stop - self.start]


class RadixPlaces:
    """Gives the tokens of one radix allocator their places; asked in order of time."""

    def __init__(self, allocator: RadixAllocator) -> None:
        self._allocator = allocator
        self._tree: dict[int, _Stretch] = {}
        self._own: dict[int, tuple[_Stretch, Sequence]] = {}
        self._evicted: list[tuple[int, int]] = []

    def pieces(self, state: SchedulerState) -> Pieces:
        """The tree by who holds it, then what each request holds outside; O(pool)."""
        owners = [*state.running, *state.ended]
        self._settle(owners)
        pieces = Pieces()
        holders = self._holders(owners)
        for node in self._allocator.cache.tree.nodes():
            held = holders.get(node)
            what = "cached" if held is None else "token"
            owner, num_owners = (-1, 0) if held is None else held
            for name, start, stop in _stretches(node.run):
                for place, slots in _runs(self._tree[name].part(start, stop)):
                    pieces.add(what, place, slots, owner, num_owners)
        for sequence in owners:
            self._add_own(pieces, sequence)
        return pieces

    def _add_own(self, pieces: Pieces, sequence: Sequence) -> None:
        """What a request holds outside the tree: tokens, then the free end of its last page."""
        own, _ = self._own[sequence.index]
        computed = max(sequence.num_computed_tokens, own.start)
        for place, slots in _runs(own.part(own.start, computed)):
            pieces.add("token", place, slots, sequence.index, 1)
        token = computed
        for place, slots in _runs(own.part(computed, own.stop)):
            pieces.add_empty(place, slots, residency_of(sequence), token)
            token += slots

    def _holders(self, owners: Iterable[Sequence]) -> dict[Node, tuple[int, int]]:
        """One holder of each locked node, and how many there are."""
        found: dict[Node, tuple[int, int]] = {}
        for sequence in owners:
            node = self._allocator.lease_of(sequence).node
            while node.parent is not None:
                found.setdefault(node, (sequence.index, node.num_locks))
                node = node.parent
        return found

    # ---- places ------------------------------------------------------------------------------

    def _settle(self, owners: list[Sequence]) -> None:
        """Bring the places up to what the tree and the leases hold now."""
        before, own_before = self._tree, self._own
        self._tree = {
            name: _kept(before.get(name), start, stop)
            for name, (start, stop) in self._in_tree().items()
        }
        self._own = {}
        for sequence in owners:
            lease, old = self._allocator.lease_of(sequence), own_before.get(sequence.index)
            kept = _kept(old[0] if old else None, lease.num_shared, lease.num_tokens)
            self._own[sequence.index] = (kept, sequence)
        for own, sequence in own_before.values():
            self._publish(own, sequence)
        self._note_evicted(before)
        self._fill()

    def _in_tree(self) -> dict[int, tuple[int, int]]:
        """First position and end of what the tree holds of each stretch."""
        found: dict[int, tuple[int, int]] = {}
        for node in self._allocator.cache.tree.nodes():
            for name, start, stop in _stretches(node.run):
                low, high = found.get(name, (start, stop))
                found[name] = min(low, start), max(high, stop)
        return found

    def _publish(self, own: _Stretch, sequence: Sequence) -> None:
        """What the tree has no place for, and a request had, stays where the request had it."""
        still_own = self._own.get(sequence.index)
        end = min(own.stop, sequence.num_tokens if still_own is None else still_own[0].start)
        for name, start, stop in _stretches(sequence.run(end)):
            there = self._tree.get(name)
            if there is None:
                continue
            low, high = max(start, own.start, there.start), min(stop, there.stop)
            if low < high:
                places = there.part(low, high)
                places[:] = np.where(places < 0, own.part(low, high), places)

    def _note_evicted(self, before: dict[int, _Stretch]) -> None:
        """Places of tokens that the tree had and has no more."""
        for name, old in before.items():
            now = self._tree.get(name)
            stop = old.start if now is None else now.stop
            self._evicted += _runs(old.part(min(stop, old.stop), old.stop))

    def _fill(self) -> None:
        """Give the lowest free places to all that have none, and none to two."""
        cache = self._allocator.cache
        taken = np.zeros(cache.pool_tokens, dtype=bool)
        stretches = [*self._tree.values(), *(own for own, _ in self._own.values())]
        for stretch in stretches:
            places = stretch.places
            clash = (places >= 0) & taken[places]
            places[clash] = -1
            taken[places[places >= 0]] = True
        free = np.flatnonzero(~taken)
        first = 0
        for stretch in stretches:
            lacking = np.flatnonzero(stretch.places < 0)
            stretch.places[lacking] = free[first : first + len(lacking)]
            first += len(lacking)

    def take_evicted(self) -> list[tuple[int, int]]:
        """Places and slots that lost cached content since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted


def _kept(old: _Stretch | None, start: int, stop: int) -> _Stretch:
    """Positions ``start`` to ``stop`` with the places that they had."""
    places = np.full(stop - start, -1, dtype=np.int64)
    if old is not None:
        low, high = max(start, old.start), min(stop, old.stop)
        if low < high:
            places[low - start : high - start] = old.part(low, high)
    return _Stretch(start, places)


def _stretches(run: TokenRun) -> Iterator[tuple[int, int, int]]:
    """Names of a run, with the positions that each has of it."""
    start = 0
    for name, end in zip(run.names, run.ends, strict=True):
        low, high = max(start, run.start), min(end, run.stop)
        if low < high:
            yield name, low, high
        start = end


def _runs(places: Places) -> list[tuple[int, int]]:
    """Neighbouring places as ``(place, slots)``, in the order given."""
    if not len(places):
        return []
    breaks = (np.flatnonzero(places[1:] != places[:-1] + 1) + 1).tolist()
    if not breaks:
        return [(int(places[0]), len(places))]
    starts = [0, *breaks]
    lengths = (stop - start for start, stop in pairwise([*starts, len(places)]))
    return list(zip(places[starts].tolist(), lengths, strict=True))
