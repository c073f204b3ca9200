"""Everything ``kvsim trace reuse`` tells about a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.names import unknown
from kvsim.traces.reuse.accesses import Accesses
from kvsim.traces.reuse.ceiling import Ceiling, ceiling_of
from kvsim.traces.reuse.curve import Counted, Curve, Hits
from kvsim.traces.reuse.replay import replay
from kvsim.traces.reuse.stack import plain_positions, tree_positions
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace

DEFINITIONS: Final = {
    "tree": "prefix tree: a request is looked up before it is inserted, and its leading run of "
    "cached blocks hits; LRU evicts leaves only; the last block weighs its remaining tokens",
    "plain": "single blocks: a request's blocks are touched first to last, each touch of a "
    "resident block hits, each miss evicts where the cache is full and inserts",
}
"""What a hit is, by the name that ``--definition`` takes."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Reuse of a trace under one definition.

    Attributes
    ----------
    first, end
        The requests counted, from 0, ``end`` not included.
    curve
        LRU at all capacities.
    """

    definition: str
    accesses: Accesses
    counted: Counted
    ceiling: Ceiling
    curve: Curve
    first: int
    end: int

    def replayed(self, policy: str, capacity_blocks: int) -> Hits:
        """Hits of a policy at one capacity, replayed."""
        return self.counted.hits(replay(self.accesses, self.definition, policy, capacity_blocks))

    def capacities(self) -> list[int]:
        """1, 2, 5, 10, ... up to the first at which all is gained that can be."""
        steps = [step * 10**power for power in range(19) for step in (1, 2, 5)]
        needed = sum(step < self.curve.largest_useful for step in steps)
        return steps[: needed + 1]


def measure_reuse(
    trace: Trace, definition: str = "tree", *, first: int = 0, end: int | None = None
) -> Reuse:
    """Measure how prompts repeat earlier ones; O(blocks log blocks), no timing.

    Requests count from ``first`` to before ``end``; those before ``first`` warm the cache up.

    Raises
    ------
    TraceError
        The trace has no ids, the definition is unknown, or no request would count.
    """
    if definition not in DEFINITIONS:
        raise TraceError(unknown("definition", definition, DEFINITIONS))
    end = len(trace) if end is None else min(end, len(trace))
    if not 0 <= first < end:
        raise TraceError(
            f"no request counts: of {len(trace):,} requests those from {first:,} to before {end:,} "
            "were asked for; take a shorter warm-up or a later end"
        )
    accesses = Accesses.of(trace, chained=definition == "tree")
    counted = Counted.of(accesses, first, end)
    positions = tree_positions if definition == "tree" else plain_positions
    curve = Curve.of(positions(accesses), counted)
    ceiling = ceiling_of(accesses, counted)
    return Reuse(definition, accesses, counted, ceiling, curve, first, end)
