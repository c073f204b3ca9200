"""``kvsim trace sample IN OUT``: fewer requests, sessions kept whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.options.trace_options import read_with_options
from kvsim.cli.trace.convert import add_output, write_output
from kvsim.cli.trace.input import add_input

if TYPE_CHECKING:
    import argparse


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "sample",
        help="draw requests at random, sessions whole",
        description="Draw sessions, or single requests without a session, at random until "
        "there are enough requests, and write them in kvsim's own format. Times "
        "stay the same; the first arrival becomes 0.",
    )
    add_input(parser, "IN")
    add_output(parser)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--requests", type=int, metavar="N", help="draw at least N requests")
    size.add_argument("--fraction", type=float, metavar="F", help="draw this share, such as 0.1")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw and write."""
    import math

    import numpy as np

    from kvsim.traces.adjust.select import sample

    fraction = arguments.fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise ValueError(f"--fraction is {fraction}; allowed are numbers above 0 up to 1")
    trace = read_with_options(arguments.file, arguments)
    wanted = arguments.requests
    if wanted is None:
        wanted = math.ceil(fraction * len(trace))
    write_output(sample(trace, wanted, np.random.default_rng(arguments.seed)), arguments)
    return 0
