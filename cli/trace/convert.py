"""``kvsim trace convert IN OUT``: any format in, kvsim's own out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.options.completion import FILES
from kvsim.cli.options.trace_options import read_with_options
from kvsim.cli.trace.input import add_input

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.trace.trace import Trace


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "convert",
        help="write a file of any format in kvsim's own format",
        description="Read a file of any format and write it in kvsim's own format: .csv, "
        ".jsonl or .parquet, with or without .gz or .zst.",
    )
    add_input(parser, "IN")
    add_output(parser)
    parser.set_defaults(handler=run)


def add_output(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Declare the file to write."""
    out = parser.add_argument(
        "out",
        metavar="OUT",
        nargs="?" if optional else None,
        help="file to write: .csv, .jsonl or .parquet (.gz, .zst)",
    )
    out.complete = FILES  # type: ignore[attr-defined]  # read by shtab


def run(arguments: argparse.Namespace) -> int:
    """Read and write."""
    write_output(read_with_options(arguments.file, arguments), arguments)
    return 0


def write_output(trace: Trace, arguments: argparse.Namespace) -> None:
    """Write ``OUT`` and say how much it holds."""
    from kvsim.traces import write_trace
    from kvsim.traces.common.text import counted

    write_trace(trace, Path(arguments.out))
    print(f"{arguments.out}: {counted(len(trace), 'request')} written")
