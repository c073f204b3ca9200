"""How the trace commands read their file: as it stands, or as options say, to be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.completion import FILES
from kvsim.cli.trace_options import add_reading_options

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.trace import Trace


def add_input(parser: argparse.ArgumentParser) -> None:
    """Declare a file that is looked at as it stands."""
    _add_file(parser, "FILE")
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


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare a file whose requests are written again; what it does not say may be drawn."""
    _add_file(parser, "IN")
    add_reading_options(parser.add_argument_group("reading"))


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Declare the seed of what is drawn."""
    parser.add_argument("--seed", type=int, default=0, help="seed of all that is drawn (default 0)")


def check_seed(seed: int) -> int:
    """Return a seed that generators take; ValueError for others."""
    if seed < 0:
        raise ValueError(f"--seed is {seed}; allowed are whole numbers from 0")
    return seed


def _add_file(parser: argparse.ArgumentParser, name: str) -> None:
    trace = parser.add_argument("file", metavar=name, help="file in any format kvsim reads")
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab


def read_input(arguments: argparse.Namespace, *, quiet: bool = False) -> Trace:
    """Read a file for statistics: requests without an answer or without a time stay in.

    Its receipt goes to stderr unless ``quiet``.
    """
    from kvsim.traces import read_trace

    trace = read_trace(
        Path(arguments.file),
        format=arguments.format,
        sort=arguments.sort,
        on_bad_row=arguments.on_bad_row,
        limit=arguments.limit,
        keep_unusable=True,
    )
    return trace if quiet else _told(trace)


def read_source(arguments: argparse.Namespace) -> Trace:
    """Read a file to be written again; turns without a time of their own stay so."""
    from kvsim.traces import read_trace
    from kvsim.traces.answers import apply_answers
    from kvsim.traces.arrivals import arrival_rule, session_start_rule
    from kvsim.traces.spread_ties import spread_ties

    trace = read_trace(
        Path(arguments.file),
        format=arguments.format,
        sort=arguments.sort,
        on_bad_row=arguments.on_bad_row,
        limit=arguments.limit,
        arrivals=arrival_rule(arguments.arrivals, arguments.rate),
        session_starts=session_start_rule(arguments.session_starts, arguments.session_rate),
        output_tokens=arguments.output_tokens,
        seed=check_seed(arguments.seed),
    )
    trace = apply_answers(trace, arguments.answers)
    return _told(spread_ties(trace) if arguments.spread_ties else trace)


def _told(trace: Trace) -> Trace:
    if trace.receipt is not None:
        for line in trace.receipt.lines():
            print(line, file=sys.stderr)
    return trace
