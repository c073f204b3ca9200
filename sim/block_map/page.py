"""``block-map.html``: pools side by side, time on a slider; one file that needs no network.

The maps travel as planes of bytes, one a cell and snapshot, each snapshot as its difference to the
one before, deflated; the script beside this module unpacks and draws them.
"""

from __future__ import annotations

import base64
import json
import zlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.sim.block_map.colours import (
    DARK,
    EVICTED,
    LABELS,
    LIGHT,
    LOOKS,
    OWNERS,
    PALE,
    Shown,
    look_shares,
    num_columns,
)
from kvsim.sim.report.page import Head, page
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kvsim.sim.block_map.block_map import BlockMap

MOST_BYTES: Final = 7 * 2**20
"""Of all maps of a page; snapshots are left out until they fit."""

WHAT_TO_SEE: Final = (
    "each square is a piece of KV memory, by address from left to right and top to bottom. "
    "Contiguous runs carry long tails that are reserved and never filled, and leave holes too "
    "small for who waits; blocks fill up wherever they lie. What several requests share stands "
    "out most: darkest on a light page, lightest on a dark one. Green waits to be used again, and "
    "a dot marks where such content was evicted."
)


def block_map_page(maps: Sequence[BlockMap]) -> Iterator[str]:
    """Parts of the page, in order; the maps, one or more, are on one time axis."""
    traces = dict.fromkeys(one.facts.trace for one in maps)
    places = dict.fromkeys(f"{one.facts.model} on {one.facts.hardware}" for one in maps)
    head = Head(f"Block map of {', '.join(traces)}", lead="; ".join(places))
    return page(head, _blocks(maps), drawn_by=_own("block_map.js"))


def _blocks(maps: Sequence[BlockMap]) -> Iterator[str]:
    """Style, controls, places for the panels, and the data."""
    yield f"<style>\n{_own('block_map.css')}</style>\n"
    yield f'<p class="see"><b>What to see:</b> {WHAT_TO_SEE}</p>\n'
    yield _own("block_map.html")
    yield '<script type="application/json" id="block-map-data">'
    yield _json({"panels": fitted(maps), **_looks()})
    yield "</script>\n"


def fitted(maps: Sequence[BlockMap]) -> list[dict[str, Any]]:
    """Panels with so many of their snapshots that all fit into ``MOST_BYTES``."""
    every = 1
    while True:
        panels = [_panel(one, every) for one in maps]
        num_bytes = sum(len(text) for panel in panels for text in panel["planes"].values())
        if num_bytes <= MOST_BYTES or every >= max(map(len, maps)):
            return panels
        every *= -(-num_bytes // MOST_BYTES)


def _panel(found: BlockMap, every: int) -> dict[str, Any]:
    """One map as JSON: sizes, times, shares of the pool and planes of its cells."""
    facts, shown = found.facts, Shown.of(found)
    owner = (found.owner + 1).astype(np.int64)
    planes = {
        "looks": shown.first | shown.second << 4,
        "share": shown.share,
        "owner0": owner & 255,
        "owner1": owner >> 8 & 255,
        "owner2": owner >> 16 & 255,
        "owners": np.minimum(found.owners, 255),
        "evicted": found.evicted > 0,
    }
    keeps = slice(None, None, every)
    if every > 1:
        planes["evicted"] = np.logical_or.reduceat(
            planes["evicted"], np.arange(0, len(found), every)
        )
        planes = {
            name: values if name == "evicted" else values[keeps] for name, values in planes.items()
        }
    return {
        "name": facts.name,
        "allocator": facts.allocator,
        "slots": facts.num_slots,
        "cellSlots": facts.cell_slots,
        "blockSize": facts.block_size,
        "cells": found.grid.num_cells,
        "columns": num_columns(found.grid.num_cells),
        "seconds": (found.time_ps[keeps] / PS_PER_S).tolist(),
        "running": found.running[keeps].tolist(),
        "waiting": found.waiting[keeps].tolist(),
        "shares": np.round(look_shares(found)[keeps], 5).tolist(),
        "planes": {name: _packed(values.astype(np.uint8)) for name, values in planes.items()},
    }


def _packed(plane: NDArray[np.uint8]) -> str:
    """Base64 of the deflated differences (xor) of each snapshot to the one before."""
    changes = plane.copy()
    changes[1:] ^= plane[:-1]
    return base64.b64encode(zlib.compress(changes.tobytes(), 6)).decode("ascii")


def _looks() -> dict[str, Any]:
    return {
        "looks": LOOKS,
        "labels": LABELS,
        "evicted": EVICTED,
        "light": LIGHT,
        "dark": DARK,
        "owners": OWNERS,
        "pale": PALE,
    }


def _json(document: object) -> str:
    """JSON that may stand inside a script element, whatever the names in it."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _own(name: str) -> str:
    return (files("kvsim.sim.block_map") / name).read_text(encoding="utf-8")
