"""``kvsim trace WHAT``: inspect, convert and generate traces; one file a sub-command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.trace import convert as trace_convert
from kvsim.cli.trace import fetch as trace_fetch
from kvsim.cli.trace import info as trace_info
from kvsim.cli.trace import reuse as trace_reuse
from kvsim.cli.trace import sample as trace_sample
from kvsim.cli.trace import slice as trace_slice
from kvsim.cli.trace import synth as trace_synth

if TYPE_CHECKING:
    import argparse

KINDS: Final = (
    trace_info,
    trace_reuse,
    trace_convert,
    trace_sample,
    trace_slice,
    trace_synth,
    trace_fetch,
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "trace",
        help="look at traces, change their form, make them up",
        description="Inspect, convert and generate traces. See docs/traces.md and docs/reuse.md.",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for kind in KINDS:
        kind.add_parser(kinds)
