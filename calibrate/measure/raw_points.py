"""The file of raw points: what a session has measured so far, written after every point.

JSON: ``format``, ``setup`` (what was to be measured, on what; two sessions with equal setups may
be joined), ``anchor_us`` (the reference; None until it was taken) and ``points``, each with its
block, role, loads, ``times_us``, ``rotated_bytes``, the repeats that were ``discarded`` and its own
``anchor_us``. Written to a second file that then takes its place, so that a reader, or a session
that goes on after Ctrl-C, never sees half of it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.measure.points import Point
from kvsim.calibrate.measure.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT: Final = "kvsim-points/2"


class RawPoints:
    """Timings by point, and the file they are kept in.

    ``setup``: plain JSON values; ``anchor_us``: the reference that readings are held against.
    """

    def __init__(self, path: Path, setup: Mapping[str, Any]) -> None:
        self.path = path
        self.setup = dict(setup)
        self.anchor_us: float | None = None
        self.clocks: list[str] = []
        self.timings: dict[str, tuple[Point, Timing]] = {}

    @classmethod
    def opened(cls, path: Path, setup: Mapping[str, Any]) -> RawPoints:
        """Points of an interrupted session, else none.

        Raises ``ValueError`` where the file is something else, or of another calibration.
        """
        raw = cls(path, setup)
        if path.exists():
            raw._load(_read(path))
        return raw

    def __contains__(self, point: Point) -> bool:
        return point.key in self.timings

    def add(self, point: Point, timing: Timing) -> None:
        """Take a point's timing and write the file."""
        self.timings[point.key] = point, timing
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps(self.to_json(), indent=1) + "\n", "utf-8")
        os.replace(beside, self.path)  # noqa: PTH105 - Path.replace is the same, named less well

    def to_json(self) -> dict[str, Any]:
        """Content of the file."""
        return {
            "format": FORMAT,
            "setup": self.setup,
            "anchor_us": self.anchor_us,
            "clocks": self.clocks,
            "points": [_row(point, timing) for point, timing in self.timings.values()],
        }

    def _load(self, content: Mapping[str, Any]) -> None:
        if content.get("setup") != self.setup:
            known = content.get("setup", {})
            differ = [key for key in self.setup if known.get(key) != self.setup[key]]
            raise ValueError(
                f"{self.path} holds points of another calibration ({', '.join(differ)} differ): "
                "remove it, or give another --out"
            )
        self.anchor_us = content["anchor_us"]
        self.clocks = list(content["clocks"])
        for row in content["points"]:
            point, timing = point_of(row)
            self.timings[point.key] = point, timing


def point_of(row: Mapping[str, Any]) -> tuple[Point, Timing]:
    """Point and timing of a row of the file (or of a profile's ``measurement``)."""
    point = Point(row["block"], row["role"], dict(row["loads"]))
    try:
        return point, Timing(
            tuple(row["times_us"]), row["rotated_bytes"], row["discarded"], row["anchor_us"]
        )
    except KeyError as error:
        raise ValueError(
            f"the raw point {point.key} has no {error}: another version of kvsim measured it; "
            "calibrate again"
        ) from None


def _row(point: Point, timing: Timing) -> dict[str, Any]:
    return {
        "block": point.block,
        "role": point.role,
        "loads": dict(point.loads),
        "times_us": [round(time_us, 3) for time_us in timing.times_us],
        "median_us": round(timing.median_us, 3),
        "spread": round(timing.spread, 4),
        "rotated_bytes": timing.rotated_bytes,
        "discarded": timing.discarded,
        "anchor_us": round(timing.anchor_us, 3),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a file of raw points ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: not a file of raw points ({FORMAT})")
    return content
