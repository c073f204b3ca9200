"""``kvsim trace slice IN OUT``: the requests of some rows, or of some stretch of time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kvsim.cli.options.trace_options import read_with_options
from kvsim.cli.trace.convert import add_output, write_output
from kvsim.cli.trace.input import add_input

if TYPE_CHECKING:
    import argparse

_ROWS: Final = re.compile(r"([0-9]{0,18}):([0-9]{0,18})")
_TIMES: Final = re.compile(r"([0-9]{0,9}(?:\.[0-9]{1,9})?):([0-9]{0,9}(?:\.[0-9]{1,9})?)")


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "slice",
        help="cut requests out, by rows or by time",
        description="Write some rows, or the requests that arrive in a time range, in kvsim's "
        "own format. The first arrival becomes 0. If a turn of a session is left "
        "out, the next turn follows no turn.",
    )
    add_input(parser, "IN")
    add_output(parser)
    part = parser.add_mutually_exclusive_group(required=True)
    part.add_argument("--rows", metavar="A:B", help="rows A to B - 1, from 0; A or B may be empty")
    part.add_argument(
        "--time",
        metavar="A:B",
        help="from second A until before second B, counted from the zero of the trace",
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Cut and write."""
    from decimal import Decimal

    from kvsim.traces.adjust.select import slice_rows, slice_time

    if arguments.rows is not None:
        first, end = _bounds("--rows", arguments.rows, _ROWS, "100:200")
        trace = read_with_options(arguments.file, arguments)
        part = slice_rows(trace, int(first or 0), int(end) if end else None)
    else:
        first, end = _bounds("--time", arguments.time, _TIMES, "60:120.5")
        first_ns = int(Decimal(first or "0") * 10**9)
        end_ns = int(Decimal(end) * 10**9) if end else None
        part = slice_time(read_with_options(arguments.file, arguments), first_ns, end_ns)
    write_output(part, arguments)
    return 0


def _bounds(option: str, text: str, form: re.Pattern[str], example: str) -> tuple[str, str]:
    match = form.fullmatch(text)
    if match is None:
        raise ValueError(f"{option} is {text!r}; it has the form A:B, such as {example}")
    return match[1], match[2]
