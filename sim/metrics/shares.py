"""KV memory by content: ten primitives and six states that add up to the pool.

The engine records integrals of a few counts (``memory_integrals.MEMORY``). This module converts
them to bytes with exact integers. Printed shares are rounded so that they add up to 100 (largest
remainder).

    pool   = usable blocks + null block + remainder
    usable = blank | cached | owned by sequences
    owned  = token | duplicate | future | never | padding     (slots; future + never = empty)
    blank  = hole | blocked (both while requests wait) | free
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from kvsim.sim.documents.kv_memory import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kvsim.sim.documents.kv_memory import Primitives
    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder

Number = TypeVar("Number", int, float)

PRIMITIVES: Final = (
    "token",
    "duplicate",
    "future",
    "never",
    "padding",
    "hole",
    "blocked",
    "cached",
    "free",
    "unusable",
)
STATES: Final[dict[str, tuple[str, ...]]] = {
    "token": ("token", "duplicate"),
    "reserved": ("future",),
    "internal": ("never", "padding"),
    "external": ("hole", "unusable"),
    "cached": ("cached",),
    "free": ("free", "blocked"),
}
"""States that readers see; each is the sum of some primitives."""
SOSP23: Final[dict[str, tuple[str, ...]]] = {
    "token": ("token", "duplicate"),
    "reserved": ("future",),
    "internal": ("never",),
    "external": ("padding", "hole", "blocked", "free", "cached", "unusable"),
}
"""Figure 2 of the PagedAttention paper (SOSP 2023): its "external fragmentation & others" holds the
round-up (its Oracle has no internal waste) and all free memory.
"""
VIEWS: Final = {"six": STATES, "sosp23": SOSP23}


def all_time(recorder: Recorder, pool: PoolShape) -> dict[str, int]:
    """Return the primitives of the whole run, in byte-ps times ``block_size`` (exact integers)."""
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    waiting = recorder.while_waiting
    return primitives(totals, waiting["blank"] - waiting["hole"], pool)


def while_waiting(recorder: Recorder, pool: PoolShape) -> dict[str, int]:
    """Return the primitives while requests waited, in the unit of :func:`all_time`."""
    totals = recorder.while_waiting
    return primitives(totals, totals["blank"] - totals["hole"], pool)


def primitives(totals: Mapping[str, int], blocked: int, pool: PoolShape) -> dict[str, int]:
    """Split the pool over a stretch of time into primitives; they add up to the pool.

    ``totals`` are the recorder's integrals (slot-ps). ``blocked`` is the part of ``blank``, without
    holes, during which requests waited.
    """
    window_ps, slots = totals["window"], pool.block_size
    usable = (pool.num_blocks - pool.num_null_blocks) * slots
    owned = usable * window_ps - totals["blank"] - totals["cached"]
    of_slots = {
        "token": owned - totals["empty"] - totals["duplicate"] - totals["padding"],
        "duplicate": totals["duplicate"],
        "future": totals["empty"] - totals["never"],
        "never": totals["never"],
        "padding": totals["padding"],
        "hole": totals["hole"],
        "blocked": blocked,
        "cached": totals["cached"],
        "free": totals["blank"] - totals["hole"] - blocked,
    }
    parts = {name: value * pool.block_bytes for name, value in of_slots.items()}
    null_bytes = pool.num_null_blocks * pool.block_bytes
    parts["unusable"] = (null_bytes + pool.remainder_bytes) * slots * window_ps
    return parts


def sharing(totals: Mapping[str, int], pool: PoolShape) -> Sharing:
    """Return the memory that requests save by sharing blocks; ``None`` when they hold no block.

    ``factor`` = logical / physical, ``savings_percent`` = 100 (1 - physical / logical). *Logical*
    counts a shared block once for each request that holds it, *physical* counts it once.
    """
    usable = (pool.num_blocks - pool.num_null_blocks) * pool.block_size
    physical = usable * totals["window"] - totals["blank"] - totals["cached"]
    if not physical:
        return Sharing(factor=None, savings_percent=None)
    logical = physical + totals["shared"]
    return Sharing(factor=logical / physical, savings_percent=100 * totals["shared"] / logical)


def states(parts: Mapping[str, Number], view: str = "six") -> dict[str, Number]:
    """Group the ten primitives into the states of one of ``VIEWS``."""
    return {name: sum(parts[part] for part in held) for name, held in VIEWS[view].items()}


def grouped(
    shares: Iterable[Primitives | None], view: str = "six"
) -> list[dict[str, float] | None]:
    """Group each of several shares into states."""
    return [None if share is None else states(share.to_dict(), view) for share in shares]


def percentages(parts: Mapping[str, int], decimals: int = 2) -> dict[str, float]:
    """Return shares in percent, rounded so that they add up to exactly 100.

    The largest remainders are rounded up, ties in the order of ``parts``. All are 0 if the
    sum is 0.
    """
    total, scale = sum(parts.values()), 10**decimals
    if total == 0:
        return dict.fromkeys(parts, 0.0)
    units = {name: value * 100 * scale // total for name, value in parts.items()}
    remainders = {name: value * 100 * scale % total for name, value in parts.items()}
    missing = 100 * scale - sum(units.values())
    for name in sorted(parts, key=lambda name: -remainders[name])[:missing]:
        units[name] += 1
    return {name: value / scale for name, value in units.items()}
