"""The bundled cards, by name, and cards from files."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.hardware.card_file import card_of, read_card
from kvsim.traces.common.arguments import check_text
from kvsim.traces.common.names import meant

if TYPE_CHECKING:
    from kvsim.sim.hardware.spec import HardwareSpec


@cache
def _cards() -> dict[str, HardwareSpec]:
    file = resources.files("kvsim.sim.hardware") / "cards.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    return {name: card_of(name, row) for name, row in table.items()}


def bundled_hardware() -> tuple[str, ...]:
    """Names of the bundled cards, sorted."""
    return tuple(sorted(_cards()))


def load_hardware(name: str) -> HardwareSpec:
    """Card by name or from a file. Raises ``ValueError`` with the nearest name and all choices."""
    check_text("hardware", name, "h100-sxm")
    cards = _cards()
    if name.lower() in cards:
        return cards[name.lower()]
    if Path(name).is_file():
        return read_card(Path(name), cards)
    raise ValueError(
        f"hardware {name!r} is neither a file nor a bundled card"
        + meant(name, sorted(cards), "bundled", "see kvsim list hardware")
    )
