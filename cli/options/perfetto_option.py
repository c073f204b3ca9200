"""``--perfetto FILE`` of ``kvsim simulate``: what requests went through, to be opened as a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.explain.timeline import Timeline
    from kvsim.sim.run.run import Run

_MOST_TRACKS: Final = 10_000


def add_perfetto_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options."""
    group.add_argument(
        "--perfetto",
        metavar="FILE",
        help="write a timeline of requests and counters for https://ui.perfetto.dev (.json or "
        ".json.gz)",
    )
    group.add_argument(
        "--perfetto-requests",
        type=int,
        metavar="N",
        help="number of requests in the timeline, spread evenly over the trace (default 2000)",
    )


class PerfettoFile:
    """The file asked for: checked before the run, written after it.

    Raises
    ------
    ValueError
        Where it cannot be written, or would replace the trace or a part of the run folder.
    """

    def __init__(self, arguments: argparse.Namespace, folder: Path | None) -> None:
        from kvsim.sim.explain.timeline import DEFAULT_REQUESTS, Timeline

        self._path = Path(arguments.perfetto)
        most = arguments.perfetto_requests
        if most is not None and not 0 <= most <= _MOST_TRACKS:
            raise ValueError(f"--perfetto-requests is {most}; it must be 0 to {_MOST_TRACKS:,}")
        _check_place(self._path, folder, Path(arguments.trace))
        self.timeline: Timeline = Timeline(DEFAULT_REQUESTS if most is None else most)

    def write(self, run: Run) -> str:
        """Write the file; what was drawn, in words."""
        from kvsim.sim.explain.perfetto import drawn, write_perfetto

        write_perfetto(run, self.timeline, self._path)
        return f"{self._path}: {drawn(run, self.timeline)}; open it in https://ui.perfetto.dev"


def perfetto_file(arguments: argparse.Namespace, folder: Path | None) -> PerfettoFile | None:
    """The file, if one is asked for."""
    if arguments.perfetto is not None:
        return PerfettoFile(arguments, folder)
    if arguments.perfetto_requests is not None:
        raise ValueError("--perfetto-requests needs --perfetto FILE")
    return None


def _are_one(first: Path, second: Path) -> bool:
    """Whether both lead to one folder; a link that leads to itself is no error, but another."""
    return os.path.realpath(first) == os.path.realpath(second)


def _check_place(path: Path, folder: Path | None, trace: Path) -> None:
    from kvsim.sim.folders.place import FILES
    from kvsim.traces.common.files import final_path

    if path.is_dir() or not path.name:
        raise ValueError(f"--perfetto {path} is a folder; name a file")
    final = final_path(path)
    if path.exists() and trace.exists() and path.samefile(trace):
        raise ValueError(f"--perfetto {path} is the trace itself; name another file")
    if folder is not None and any(_are_one(one.parent, folder) for one in (path, final)):
        if {path.name, final.name} & FILES:
            raise ValueError(f"--perfetto {path} is a part of the run folder; name another file")
        return
    if not final.parent.is_dir():
        raise ValueError(f"--perfetto {path}: the folder {final.parent} does not exist; make it")
    if not os.access(final.parent, os.W_OK | os.X_OK):
        raise ValueError(f"--perfetto {path}: the folder {final.parent} may not be written")
