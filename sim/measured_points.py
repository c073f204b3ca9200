"""What a profile keeps of its measuring: whole, or the profile is refused wherever it is read.

A run needs none of it. But a file whose points are damaged is not the file that was measured, and
its terms are as likely to be damaged as they.
"""

from __future__ import annotations

from typing import Final

from kvsim.sim.json_values import (
    read_factor,
    read_list,
    read_number,
    read_object,
    read_text,
    read_whole,
)

_COPIES: Final = ("blocks", "contiguous")
LOADS: Final = {
    "layer": ("tokens",),
    "small": ("tokens",),
    "decode": ("batch", "context"),
    "prefill": ("chunk", "past"),
    "mixed": ("chunk", "past", "decodes", "context"),
    "head": ("batch",),
    "host": ("requests", "context"),
    "layout": ("block_size", "batch", "context"),
    "flex": ("batch", "context"),
    "copy": _COPIES,
    "to_host": _COPIES,
    "from_host": _COPIES,
}
"""Loads of a point by its block: those of :mod:`kvsim.calibrate.measure.points`."""
ROLES: Final = ("fit", "hold-out")
_KEYS: Final = ("block", "role", "loads", "times_us", "rotated_bytes", "discarded", "anchor_us")


def read_measurement(value: object, where: str) -> dict[str, object]:
    """All that was kept; what is read of it again is checked.

    Raises
    ------
    ValueError
        With the place of the first fault; ``where`` opens the message.
    """
    table = read_object(value, where)
    setup = read_object(table.get("setup", {}), f"{where}: setup")
    device = read_object(setup.get("device", {}), f"{where}: setup: device")
    if "product" in device:
        read_text(device["product"], f"{where}: setup: device: product")
    for number, row in enumerate(read_list(table.get("points", []), f"{where}: points")):
        _check_point(row, f"{where}: points[{number}]")
    return table


def _check_point(value: object, where: str) -> None:
    row = read_object(value, where)
    for key in _KEYS:
        if key not in row:
            raise ValueError(
                f"{where}: {key!r} is missing: the file is damaged, or another version of kvsim "
                "measured it; calibrate again"
            )
    _check_choice(row["role"], ROLES, f"{where}: role")
    block = _check_choice(row["block"], tuple(LOADS), f"{where}: block")
    loads = read_object(row["loads"], f"{where}: loads")
    if set(loads) != set(LOADS[block]):
        raise ValueError(
            f"{where}: loads of {block} are {', '.join(LOADS[block])}, not "
            f"{', '.join(loads) or 'none'}"
        )
    for name, load in loads.items():
        read_whole(load, f"{where}: loads: {name}")
    times_us = read_list(row["times_us"], f"{where}: times_us")
    if not times_us:
        raise ValueError(f"{where}: times_us is empty")
    for time_us in times_us:
        read_factor(time_us, f"{where}: times_us")
    read_whole(row["rotated_bytes"], f"{where}: rotated_bytes")
    read_whole(row["discarded"], f"{where}: discarded")
    read_number(row["anchor_us"], f"{where}: anchor_us")


def _check_choice(value: object, choices: tuple[str, ...], where: str) -> str:
    word = read_text(value, where)
    if word not in choices:
        raise ValueError(f"{where}={word!r:.60} is unknown; choices: {', '.join(choices)}")
    return word
