"""A card from a row of ``cards.json``, or from a JSON file that holds one such row."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.hardware.spec import HardwareSpec
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB: Final = 1 << 20
_NEEDED: Final = ("total_mib", "bandwidth_gb_per_s", "peak_tflop_per_s")
_TEXTS: Final = ("name", "product", "kind", "link", "source")
_NUMBERS: Final = ("total_mib", "bandwidth_gb_per_s", "link_gb_per_s", "host_link_gb_per_s")
_KEYS: Final = (*_TEXTS, *_NUMBERS, "peak_tflop_per_s")
_KINDS: Final = ("gpu", "apple", "cpu")


def card_of(name: str, row: Mapping[str, Any]) -> HardwareSpec:
    """Card of a row with values of the right types; optional values may be absent.

    Raises
    ------
    ValueError
        If a number is not possible.
    """
    card = HardwareSpec(
        name=name,
        product=row.get("product", name),
        kind=row.get("kind", "gpu"),
        total_bytes=int(row["total_mib"] * MIB),
        bandwidth_bytes_per_s=row["bandwidth_gb_per_s"] * 1e9,
        peak_flop_per_s={dtype: t * 1e12 for dtype, t in row["peak_tflop_per_s"].items()},
        link=row.get("link", "none"),
        link_bytes_per_s=row.get("link_gb_per_s", 0) * 1e9,
        host_link_bytes_per_s=row.get("host_link_gb_per_s", 0) * 1e9,
        source=row.get("source", "given"),
    )
    card.check()
    return card


def read_card(path: Path, bundled: Mapping[str, HardwareSpec]) -> HardwareSpec:
    """Card from a file; without a name in the row, the card is named after the file.

    A profile file is accepted too. It gives the card that it holds, or else the bundled card on
    which it was measured.

    Raises
    ------
    ValueError
        With the file and the wrong key.
    OSError
        If the file cannot be read.
    """
    where = f"hardware file {path}"
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: holds no table of a card's keys")
    if str(row.get("format", "")).startswith("kvsim-profile"):
        return replace(_profile_card(row, bundled, where), profile=str(path))
    _check_row(row, where)
    card = card_of(row.get("name", path.stem), row)
    if card.name in bundled:
        raise ValueError(f"{where}: {card.name!r} is a bundled card; give it another name")
    return card


def _profile_card(
    profile: Mapping[str, Any], bundled: Mapping[str, HardwareSpec], where: str
) -> HardwareSpec:
    name, row = str(profile.get("hardware")), profile.get("card")
    if row:
        if not isinstance(row, dict):
            raise ValueError(f"{where}: card = {row!r:.60} must be a table of a card's keys")
        _check_row(row, f"{where}: card")
        return card_of(name, row)
    if name not in bundled:
        raise ValueError(
            f"{where} is a profile of {name!r}, which is not a bundled card, and has no card: give "
            "a card with --hardware and the profile with --set cost.source=FILE"
        )
    return bundled[name]


def _check_row(row: Mapping[str, Any], where: str) -> None:
    for key, value in row.items():
        if key not in _KEYS:
            raise ValueError(f"{where}: {unknown('key', key, _KEYS)}")
        if key in _TEXTS and not isinstance(value, str):
            raise ValueError(f"{where}: {key} = {value!r} must be text")
        if key in _NUMBERS and not _is_rate(value):
            raise ValueError(f"{where}: {key} = {value!r} must be a number from 0")
    for key in _NEEDED:
        if key not in row:
            raise ValueError(f"{where}: {key!r} is missing; needed: {', '.join(_NEEDED)}")
    peaks = row["peak_tflop_per_s"]
    if not isinstance(peaks, dict) or not peaks or not all(map(_is_rate, peaks.values())):
        raise ValueError(f'{where}: peak_tflop_per_s must be a table such as {{"bf16": 312}}')
    if row.get("kind", "gpu") not in _KINDS:
        raise ValueError(f"{where}: kind = {row['kind']!r}; kinds are {', '.join(_KINDS)}")


def _is_rate(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value < math.inf  # type: ignore[operator]  # it is a number
