"""LRU stack positions: a block is cached at capacity C where its position is at most C.

One pass gives the hits of all capacities (Mattson et al., "Evaluation techniques for storage
hierarchies", IBM Systems Journal 1970). A position of :data:`NEVER` means: not seen before.

``tree``: positions of a request are taken against the stack as it was before the request; then
the whole request moves to the top, its head most recent, so a parent always lies above its
children and what the top C blocks hold is a prefix tree from which leaves alone were evicted.
``plain``: blocks are touched one by one, first to last.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reuse.accesses import Accesses

NEVER: Final = np.iinfo(np.int64).max


def tree_positions(accesses: Accesses) -> NDArray[np.int64]:
    """Return the position, from 1, of each block at the arrival of its request.

    Blocks last used by one request lie together in the stack, in the order of its path. So a
    request meets few *runs* of blocks with the same last user, and all it takes is the number of
    blocks that later users hold. O((blocks + runs log n) of numpy).
    """
    positions = np.full(len(accesses.blocks), NEVER, dtype=np.int64)
    last_user = np.full(accesses.num_blocks, -1, dtype=np.int64)
    held = _Held(len(accesses))
    bounds = accesses.offsets.tolist()
    for request in range(len(accesses)):
        start, end = bounds[request], bounds[request + 1]
        if start == end:
            continue
        path = accesses.blocks[start:end]
        users = last_user[path]
        edges = [0, *(np.flatnonzero(users[1:] != users[:-1]) + 1).tolist(), end - start]
        runs = [(a, b, int(users[a])) for a, b in pairwise(edges)]
        known = [run for run in runs if run[2] >= 0]
        for a, b, user in known:
            above = held.later_than(user)
            positions[start + a : start + b] = np.arange(above + 1, above + 1 + b - a)
        for a, b, user in known:
            held.add(user, a - b)
        held.add(request, end - start)
        last_user[path] = request
    return positions


class _Held:
    """How many blocks each request was the last to use, as a Fenwick tree."""

    def __init__(self, num_requests: int) -> None:
        self._sums = [0] * (num_requests + 1)
        self._total = 0

    def add(self, request: int, count: int) -> None:
        """Change a request's count."""
        self._total += count
        index = request + 1
        while index < len(self._sums):
            self._sums[index] += count
            index += index & -index

    def later_than(self, request: int) -> int:
        """Sum over the requests after ``request``."""
        upto, index = 0, request + 1
        while index > 0:
            upto += self._sums[index]
            index &= index - 1
        return self._total - upto


def plain_positions(accesses: Accesses) -> NDArray[np.int64]:
    """Return the position, from 1, of each block at its own touch; O(blocks log blocks), numpy.

    The blocks above it are those touched since its last touch, each counted at the first touch
    since: touches whose own last touch lies before.
    """
    last_touch = _last_touches(accesses.blocks)
    positions = np.full(len(last_touch), NEVER, dtype=np.int64)
    again = last_touch >= 0
    smaller = _smaller_before(np.argsort(np.argsort(last_touch, kind="stable"), kind="stable"))
    # all touches up to the last one had theirs before it: they are counted, but lie below
    positions[again] = smaller[again] - last_touch[again]
    return positions


def _last_touches(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(blocks, kind="stable")
    last = np.full(len(blocks), -1, dtype=np.int64)
    same = blocks[order[1:]] == blocks[order[:-1]]
    last[order[1:][same]] = order[:-1][same]
    return last


def _smaller_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each entry of a permutation, the smaller entries that stand before it.

    From the highest bit down: entries that agree in all higher bits form a group, in their
    order; one with this bit set is greater than each before it in the group that has it clear.
    """
    counts = np.zeros(len(values), dtype=np.int64)
    order = np.arange(len(values))
    for bit in reversed(range(len(values).bit_length())):
        grouped = values[order]
        is_set = (grouped >> bit & 1).astype(bool)
        clear_before = np.cumsum(~is_set) - ~is_set
        group = grouped >> (bit + 1)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        base = np.repeat(clear_before[first], np.diff(first, append=len(values)))
        counts[order[is_set]] += (clear_before - base)[is_set]
        order = order[np.argsort(grouped >> bit, kind="stable")]
    return counts
