"""A card from a row of ``cards.json``, or from a JSON file that holds one such row."""

from __future__ import annotations

import difflib
import json
import math
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.hardware.spec import HardwareSpec

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
    """Card of a row whose values have the right types; what is optional may be absent.

    Raises
    ------
    ValueError
        On a number that cannot be.
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


def read_card(path: Path) -> HardwareSpec:
    """Card from a file; its name is the file's where the row has none.

    Raises
    ------
    ValueError
        With the file and the key at fault.
    OSError
        Where the file cannot be read.
    """
    where = f"hardware file {path}"
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: holds no table of a card's keys")
    if str(row.get("format", "")).startswith("kvsim-profile"):
        raise ValueError(
            f"{where} is a profile of step costs: give it as --set cost.source={path}, "
            f"with --hardware {row.get('hardware')}"
        )
    _check_row(row, where)
    return card_of(row.get("name", path.stem), row)


def _check_row(row: Mapping[str, Any], where: str) -> None:
    for key, value in row.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"; nearest is {near[0]!r}" if near else ""
            raise ValueError(f"{where}: unknown key {key!r}{hint}; keys: {', '.join(_KEYS)}")
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
