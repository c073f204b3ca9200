"""Find a card: a bundled name, or a JSON file with the keys of a row of ``cards.json``."""

from __future__ import annotations

import difflib
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.hardware.spec import HardwareSpec
from kvsim.sim.models.reader import read_config

if TYPE_CHECKING:
    from kvsim.sim.models.reader import ConfigReader

MIB = 1 << 20
MAX_RATE = 1e9
KINDS = ("gpu", "apple", "cpu")


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
    """Card by bundled name or from a file.

    Raises ``ValueError`` with the nearest name and all choices, or the key of the file at fault.
    """
    cards = _cards()
    if name.lower() in cards:
        return cards[name.lower()]
    if Path(name).is_file():
        return _from_file(Path(name))
    longer = sorted(card for card in cards if name and card.startswith(name.lower()))
    near = longer or difflib.get_close_matches(name.lower(), cards, n=1, cutoff=0.4)
    hint = f"; nearest is {' or '.join(map(repr, near))}" if near else ""
    raise ValueError(f"hardware {name!r} is not bundled{hint}; bundled: {', '.join(sorted(cards))}")


def _from_file(path: Path) -> HardwareSpec:
    """Card of a file: memory, bandwidth and a peak rate must be there, the rest may."""
    row = read_config(path)
    name = row.text("name", default=path.stem)
    if name in _cards():
        raise ValueError(f"{path}: {name!r} is a bundled card; give another 'name'")
    kind = row.text("kind", default="gpu")
    if kind not in KINDS:
        raise ValueError(f"{path}: kind={kind!r} is not one of {', '.join(KINDS)}")
    peaks = row.section("peak_tflop_per_s")
    if peaks is None or not peaks.values:
        raise ValueError(f"{path}: 'peak_tflop_per_s' must be an object such as {{\"bf16\": 312}}")
    return HardwareSpec(
        name=name,
        product=row.text("product", default=name),
        kind=kind,
        total_bytes=row.size("total_mib") * MIB,
        bandwidth_bytes_per_s=_rate(row, "bandwidth_gb_per_s", 1e9),
        peak_flop_per_s={dtype: _rate(peaks, dtype, 1e12) for dtype in peaks.values},
        link=row.text("link", default="none"),
        link_bytes_per_s=max(row.number("link_gb_per_s", 0), 0) * 1e9,
        host_link_bytes_per_s=max(row.number("host_link_gb_per_s", 0), 0) * 1e9,
        source=row.text("source", default=str(path)),
    )


def _rate(row: ConfigReader, key: str, unit: float) -> float:
    """Return a rate above 0 in plain units."""
    rate = row.number(key, 0)
    if not 0 < rate <= MAX_RATE:
        raise ValueError(f"{row.where}: {key}={rate:g} is not above 0 and at most {MAX_RATE:g}")
    return rate * unit
