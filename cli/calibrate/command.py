"""``kvsim calibrate``: measure this device; sub-commands do the rest, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.calibrate import cache_lab as calibrate_cache_lab
from kvsim.cli.calibrate import endpoint as calibrate_endpoint
from kvsim.cli.calibrate import engine as calibrate_engine
from kvsim.cli.calibrate import fit as calibrate_fit
from kvsim.cli.calibrate import measure as calibrate_measure
from kvsim.cli.calibrate import report as calibrate_report

if TYPE_CHECKING:
    import argparse

KINDS: Final = (
    calibrate_fit,
    calibrate_engine,
    calibrate_endpoint,
    calibrate_report,
    calibrate_cache_lab,
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command; without a sub-command it measures."""
    parser = commands.add_parser(
        "calibrate",
        help="measure what a step costs on this device",
        description="Measure the kernels of a step on this device and fit the step cost to them. "
        "Sub-commands fit published tables and draw measurements. See docs/measuring.md and "
        "docs/calibration.md.",
    )
    calibrate_measure.add_options(parser)
    kinds = parser.add_subparsers(title="instead of measuring", metavar="WHAT")
    for kind in KINDS:
        kind.add_parser(kinds)
