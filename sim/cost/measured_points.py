"""The measurements that a profile keeps. A profile with damaged measurements is refused everywhere.

A run does not use them. But a file with damaged points is not the file that was measured, and its
terms may be damaged too. The reader of the points checks which blocks exist and which loads each
has (:func:`kvsim.calibrate.measure.raw_points.point_of`).
"""

from __future__ import annotations

from typing import Final

from kvsim.traces.common.json_values import (
    read_factor,
    read_list,
    read_number,
    read_object,
    read_text,
    read_whole,
)

ROLES: Final = ("fit", "hold-out")
_KEYS: Final = ("block", "role", "loads", "times_us", "rotated_bytes", "discarded", "anchor_us")


def read_measurement(value: object, where: str) -> dict[str, object]:
    """Return all that was kept; the parts that are read again are checked.

    Raises
    ------
    ValueError
        With the place of the first fault; ``where`` starts the message.
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
    if read_text(row["role"], f"{where}: role") not in ROLES:
        raise ValueError(
            f"{where}: role={row['role']!r:.60} is unknown; choices: {', '.join(ROLES)}"
        )
    read_text(row["block"], f"{where}: block")
    loads = read_object(row["loads"], f"{where}: loads")
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
