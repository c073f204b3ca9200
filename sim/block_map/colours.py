"""How cells look: what is shown of them, in which colours.

A cell shows at most two of seven looks side by side, in the order below: those that most of its
slots have. Tokens of a cell with several owners are ``shared``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.metrics.shares import PRIMITIVES, STATES
from kvsim.sim.report import palette

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.block_map.block_map import BlockMap


LOOKS: Final = ("token", "shared", "reserved", "internal", "external", "cached", "free")
LABELS: Final = {
    "token": "token",
    "shared": "token, shared by several requests",
    "reserved": "reserved, will fill",
    "internal": "internal: never fills",
    "external": "external: hole, unusable",
    "cached": "cached, reusable",
    "free": "free",
}
_STATES: Final = {
    "token": palette.BLUE,
    "reserved": palette.SKY,
    "internal": palette.VERMILLION,
    "external": palette.PURPLE,
    "cached": palette.GREEN,
    "dim": palette.GREY,
}
LIGHT: Final = _STATES | {
    "shared": "#00263d",
    "free": "#e6e9ed",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "paper": "#ffffff",
}
DARK: Final = _STATES | {
    "shared": "#d8ecf9",
    "free": "#2b323b",
    "ink": "#e8eaed",
    "muted": "#a5adb8",
    "paper": "#14171c",
}
OWNERS: Final = (
    "#4477aa",
    "#ee8866",
    "#228833",
    "#aa3377",
    "#66ccee",
    "#ccbb44",
    "#bb5566",
    "#44bb99",
    "#7a6fc0",
    "#b58d3d",
)
"""Colours of requests, over and over; neighbours in time differ."""
PALE: Final = 0.3
"""How much of its owner's colour an owned slot without a token has."""
EVICTED: Final = "dot: cached content evicted since the last snapshot"


@dataclass(frozen=True, slots=True)
class Shown:
    """Looks of all cells, (snapshots, cells): ``share`` of 255 shows ``first``, the rest another.

    ``second`` is ``first`` where all looks alike.
    """

    first: NDArray[np.uint8]
    second: NDArray[np.uint8]
    share: NDArray[np.uint8]

    @staticmethod
    def of(found: BlockMap) -> Shown:
        """Looks of a map's cells."""
        slots = look_slots(found)
        order = np.argsort(-slots, axis=1, kind="stable")[:, :2]
        first, second = order.min(axis=1), order.max(axis=1)
        ours = np.take_along_axis(slots, first[:, None], 1)[:, 0]
        theirs = np.take_along_axis(slots, second[:, None], 1)[:, 0]
        first = np.where(ours > 0, first, second)
        second = np.where(theirs > 0, second, first)
        alone = first == second
        share = np.where(alone, 255, np.rint(255 * ours / np.maximum(ours + theirs, 1)))
        return Shown(first.astype(np.uint8), second.astype(np.uint8), share.astype(np.uint8))


def look_slots(found: BlockMap) -> NDArray[np.int32]:
    """Slots by look, (snapshots, looks, cells)."""
    slots = np.zeros((len(found), len(LOOKS), found.grid.num_cells), dtype=np.int32)
    for state, parts in STATES.items():
        codes = [PRIMITIVES.index(part) for part in parts]
        slots[:, LOOKS.index(state)] = found.slots[:, codes].sum(axis=1)
    shared = found.owners > 1
    slots[:, 1] = np.where(shared, slots[:, 0], 0)
    slots[:, 0] -= slots[:, 1]
    return slots


def look_shares(found: BlockMap) -> NDArray[np.float64]:
    """Fraction of the pool by look, (snapshots, looks)."""
    sums: NDArray[np.int64] = look_slots(found).sum(axis=2, dtype=np.int64)
    return sums / max(found.facts.num_slots, 1)


def num_columns(num_cells: int) -> int:
    """Cells in a row of the picture, which is about square."""
    return max(int(np.ceil(np.sqrt(num_cells))), 1)
