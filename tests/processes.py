"""Whether processes of a command have ended, also where nobody waits for them.

An orphan is handed to process 1, which in a container may never ask how it ended: it stays in the
table of processes, as a zombie. It has ended all the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tests.patience import wait_until


class Listed(NamedTuple):
    """What ``/proc`` says of a process."""

    pid: int
    parent: int
    group: int
    has_ended: bool


def listed() -> list[Listed]:
    """All processes, zombies among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, group = path.read_text("utf-8").rpartition(")")[2].split()[:3]
        except OSError:  # it has gone meanwhile
            continue
        found.append(Listed(int(path.parent.name), int(parent), int(group), state in "ZX"))
    return found


def wait_for_the_end_of(group: int) -> None:
    """Wait until no process of a group runs."""
    wait_until(lambda: not _running(group), lambda: f"still there: {_running(group)}")


def _running(group: int) -> list[Listed]:
    if Path("/proc/self/stat").exists():
        return [one for one in listed() if one.group == group and not one.has_ended]
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    return [Listed(group, 0, group, has_ended=False)]
