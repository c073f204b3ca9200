"""The options by which the trace commands read their file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.completion import FILES

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.trace import Trace


def add_input(parser: argparse.ArgumentParser, name: str = "FILE") -> None:
    """Declare the file and how to read it."""
    trace = parser.add_argument("file", metavar=name, help="file in any format kvsim reads")
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    group = parser.add_argument_group("reading")
    group.add_argument("--format", help="format of the file, where its content does not tell")
    group.add_argument("--limit", type=int, metavar="N", help="read the first N requests only")
    group.add_argument("--sort", action="store_true", help="sort requests by arrival time")
    group.add_argument(
        "--on-bad-row",
        choices=("stop", "skip"),
        default="stop",
        help="what to do with a row that cannot be read (default stop)",
    )


def read_input(
    arguments: argparse.Namespace, *, for_statistics: bool = False, quiet: bool = False
) -> Trace:
    """Read the file; its receipt goes to stderr unless ``quiet``.

    ``for_statistics`` keeps requests that cannot be simulated: without an answer, without times.
    """
    from kvsim.traces import read_trace

    trace = read_trace(
        Path(arguments.file),
        format=arguments.format,
        sort=arguments.sort,
        on_bad_row=arguments.on_bad_row,
        limit=arguments.limit,
        keep_unusable=for_statistics,
    )
    if trace.receipt is not None and not quiet:
        for line in trace.receipt.lines():
            print(line, file=sys.stderr)
    return trace
