"""The file that a trace command reads, the options that say how, and the seed of what is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.options.completion import FILES
from kvsim.cli.options.trace_options import add_reading_options

if TYPE_CHECKING:
    import argparse


def add_input(parser: argparse.ArgumentParser, name: str = "FILE") -> None:
    """Declare the file, how to read it, and the seed."""
    trace = parser.add_argument("file", metavar=name, help="file in any format kvsim reads")
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    add_reading_options(parser.add_argument_group("reading"))
    add_seed(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Declare the seed of what is drawn."""
    parser.add_argument("--seed", type=int, default=0, help="seed of all that is drawn (default 0)")
