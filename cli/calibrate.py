"""``kvsim calibrate WHAT``: what steps cost, from measurements; one file a sub-command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli import calibrate_endpoint, calibrate_engine, calibrate_fit

if TYPE_CHECKING:
    import argparse

KINDS: Final = (calibrate_fit, calibrate_engine, calibrate_endpoint)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "calibrate",
        help="profiles of step costs from measurements",
        description="Make profiles of step costs from measurements. See docs/calibration.md.",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    for kind in KINDS:
        kind.add_parser(kinds)
