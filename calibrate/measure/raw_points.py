"""The file of raw points: what a session has measured so far, written after every point.

JSON: ``format``, ``setup`` (what was to be measured, on what; two sessions with equal setups may
be joined), ``anchor_us`` (the reference; None until it was taken) and ``points``, each with its
block, role, loads, ``times_us``, ``rotated_bytes``, the repeats that were ``discarded`` and its own
``anchor_us``. Written to a second file that then takes its place, so that a reader, or a session
that goes on after Ctrl-C, never sees half of it.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.measure.points import FIT, HOLD_OUT, LOADS, Point
from kvsim.calibrate.measure.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORMAT: Final = "kvsim-points/2"
_MOST: Final = 2**63
"""Numbers of the file are below it."""


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
        """Write the file, whole or not at all; a link stays one."""
        final = Path(os.path.realpath(self.path))
        if final.is_symlink():
            raise OSError(errno.ELOOP, f"{self.path} is a link that leads to itself")
        beside = final.with_name(final.name + ".part")
        try:
            beside.write_text(json.dumps(self.to_json(), indent=1) + "\n", "utf-8")
            beside.replace(final)
        except OSError:
            with suppress(OSError):  # on a disk that may not be written
                beside.unlink(missing_ok=True)
            raise

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
        known = content.get("setup")
        if not isinstance(known, dict):
            raise self._damaged(f"setup is {known!r:.60}, not an object")
        if known != self.setup:
            raise ValueError(
                f"{self.path} holds points of another calibration "
                f"({'; '.join(_differences(known, self.setup))}): remove it, or give another --out"
            )
        if fault := _fault_of(content):
            raise self._damaged(fault)
        self.anchor_us = content["anchor_us"]
        self.clocks = list(content["clocks"])
        for row in content["points"]:
            point, timing = point_of(row)
            self.timings[point.key] = point, timing

    def _damaged(self, fault: str) -> ValueError:
        return ValueError(f"{self.path} is damaged: {fault}; remove it to start anew")


def point_of(row: Mapping[str, Any]) -> tuple[Point, Timing]:
    """Point and timing of a row of the file (or of a profile's ``measurement``).

    Raises ``ValueError`` for a row that no calibration writes.
    """
    if fault := _row_fault(row):
        raise ValueError(f"a raw point is damaged: {fault}; calibrate again")
    return Point(row["block"], row["role"], dict(row["loads"])), Timing(
        tuple(row["times_us"]), row["rotated_bytes"], row["discarded"], row["anchor_us"]
    )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], of: str = "") -> list[str]:
    """Which values of two setups differ, and how; ``of`` is the key that holds both."""
    words = []
    for key in {**ours, **theirs}:
        known, now = theirs.get(key), ours.get(key)
        if isinstance(known, dict) and isinstance(now, dict):
            words += _differences(known, now, f"{of}{key}.")
        elif known != now:
            words.append(f"{of}{key} was {known!r:.60}, now {now!r:.60}")
    return words


def _fault_of(content: Mapping[str, Any]) -> str | None:
    """What is wrong with the file's values, in words."""
    if missing := {"anchor_us", "clocks", "points"} - content.keys():
        return f"{min(missing)!r} is missing"
    anchor_us, clocks, points = content["anchor_us"], content["clocks"], content["points"]
    if anchor_us is not None and not (_is_time(anchor_us) and anchor_us > 0):
        return f"anchor_us is {anchor_us!r:.60}, not a time above 0"
    if not _is_list(clocks, str):
        return f"clocks is {clocks!r:.60}, not a list of strings"
    if not _is_list(points, dict):
        return f"points is {points!r:.60}, not a list of objects"
    for number, row in enumerate(points):
        if fault := _row_fault(row):
            return f"points[{number}]: {fault}"
    return None


def _row_fault(row: Mapping[str, Any]) -> str | None:
    checks: dict[str, tuple[Callable[[Any], bool], str]] = {
        "block": (lambda value: value in [*LOADS], f"one of {', '.join(LOADS)}"),
        "role": (lambda value: value in (FIT, HOLD_OUT), f"{FIT!r} or {HOLD_OUT!r}"),
        "loads": (_are_loads, "an object of whole numbers from 0"),
        "times_us": (_are_times, "a list of times above 0"),
        "rotated_bytes": (_is_count, "a whole number from 0"),
        "discarded": (_is_count, "a whole number from 0"),
        "anchor_us": (_is_time, "a time"),
    }
    for key, (holds, expected) in checks.items():
        if key not in row:
            return f"{key!r} is missing"
        if not holds(row[key]):
            return f"{key} is {row[key]!r:.60}, not {expected}"
    names = LOADS[row["block"]]
    if set(row["loads"]) != set(names):
        given = ", ".join(row["loads"]) or "none"
        return f"loads of {row['block']} are {given}, not {', '.join(names)}"
    return None


def _is_list(value: object, of: type) -> bool:
    return isinstance(value, list) and all(isinstance(entry, of) for entry in value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < _MOST  # type: ignore[operator]


def _are_loads(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


def _are_times(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_time(us) and us > 0 for us in value)


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
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a file of raw points ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: not a file of raw points ({FORMAT})")
    return content
