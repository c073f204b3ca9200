"""KV memory by what it holds: ten primitives and six states that add up to the pool.

The engine records integrals of a few counts (``recorder.MEMORY``); this module turns them into
bytes. Everything is exact integer arithmetic until a share is printed, and printed shares are
rounded so that they still add up to 100 (largest remainder).

    pool   = usable blocks + null block + remainder
    usable = blank | cached | owned by sequences
    owned  = token | duplicate | future | never        (slots; future + never = empty)
    blank  = blocked (while requests wait) | free
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.sim.recorder import Recorder

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
"""What readers see, each the sum of some primitives."""


@dataclass(frozen=True, slots=True)
class PoolShape:
    """Sizes of the pool; ``num_blocks`` counts the null block, ``remainder_bytes`` fit no block."""

    num_blocks: int
    block_size: int
    block_bytes: int
    remainder_bytes: int = 0

    @property
    def pool_bytes(self) -> int:
        """All KV memory."""
        return self.num_blocks * self.block_bytes + self.remainder_bytes


def all_time(recorder: Recorder, pool: PoolShape) -> dict[str, int]:
    """Primitives over the whole run, in byte-ps times ``block_size`` (exact integers)."""
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    return primitives(totals, recorder.while_waiting["blank"], pool)


def while_waiting(recorder: Recorder, pool: PoolShape) -> dict[str, int]:
    """Primitives over the time in which requests waited, in the unit of :func:`all_time`."""
    totals = recorder.while_waiting
    return primitives(totals, totals["blank"], pool)


def primitives(totals: Mapping[str, int], blocked_blank: int, pool: PoolShape) -> dict[str, int]:
    """Split a stretch of time into primitives; they add up to the pool over ``window``.

    ``totals`` are ``recorder.MEMORY`` integrals (slot-ps); ``blocked_blank`` is the part of
    ``blank`` in which requests waited.
    """
    window_ps, slots = totals["window"], pool.block_size
    held = (pool.num_blocks - 1) * slots * window_ps - totals["blank"] - totals["cached"]
    of_slots = {
        "token": held - totals["empty"] - totals["duplicate"],
        "duplicate": totals["duplicate"],
        "future": totals["empty"] - totals["never"],
        "never": totals["never"],
        "padding": 0,
        "hole": 0,
        "blocked": blocked_blank,
        "cached": totals["cached"],
        "free": totals["blank"] - blocked_blank,
    }
    parts = {name: value * pool.block_bytes for name, value in of_slots.items()}
    parts["unusable"] = (pool.block_bytes + pool.remainder_bytes) * slots * window_ps
    return parts


def states(parts: Mapping[str, int]) -> dict[str, int]:
    """Six states of ten primitives."""
    return {name: sum(parts[part] for part in held) for name, held in STATES.items()}


def percentages(parts: Mapping[str, int], decimals: int = 2) -> dict[str, float]:
    """Shares in percent, rounded so that the printed numbers add up to exactly 100.

    Largest remainder, ties in the order of ``parts``; all 0 where the sum is 0.
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
