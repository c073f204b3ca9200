"""The bundled cards, by name."""

from __future__ import annotations

import difflib
import json
from functools import cache
from importlib import resources

from kvsim.sim.hardware.spec import HardwareSpec

MIB = 1 << 20


@cache
def _cards() -> dict[str, HardwareSpec]:
    file = resources.files("kvsim.sim.hardware") / "cards.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    cards = {}
    for name, row in table.items():
        card = HardwareSpec(
            name=name,
            product=row["product"],
            kind=row["kind"],
            total_bytes=row["total_mib"] * MIB,
            bandwidth_bytes_per_s=row["bandwidth_gb_per_s"] * 1e9,
            peak_flop_per_s={dtype: t * 1e12 for dtype, t in row["peak_tflop_per_s"].items()},
            link=row["link"],
            link_bytes_per_s=row["link_gb_per_s"] * 1e9,
            host_link_bytes_per_s=row["host_link_gb_per_s"] * 1e9,
            source=row["source"],
        )
        card.check()
        cards[name] = card
    return cards


def bundled_hardware() -> tuple[str, ...]:
    """Names of the bundled cards, sorted."""
    return tuple(sorted(_cards()))


def load_hardware(name: str) -> HardwareSpec:
    """Card by name. Raises ``ValueError`` with the nearest name and all choices."""
    cards = _cards()
    if name.lower() in cards:
        return cards[name.lower()]
    longer = sorted(card for card in cards if name and card.startswith(name.lower()))
    near = longer or difflib.get_close_matches(name.lower(), cards, n=1, cutoff=0.4)
    hint = f"; nearest is {' or '.join(map(repr, near))}" if near else ""
    raise ValueError(f"hardware {name!r} is not bundled{hint}; bundled: {', '.join(sorted(cards))}")
