"""``kvsim calibrate report PROFILE``: measured against fitted, one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.options.completion import FILES
from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "report",
        help="draw measured against fitted",
        description="Draw every point of a measured profile beside the value of its terms, in "
        "one HTML file that opens without a network.",
    )
    profile = parser.add_argument(
        "profile", metavar="PROFILE", help="file that kvsim calibrate wrote"
    )
    profile.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.add_argument("--out", metavar="FILE", help="page (default: PROFILE's name, .html)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw."""
    from kvsim.calibrate.profile_page import profile_page
    from kvsim.cli.text.fit_table import error_lines
    from kvsim.sim.cost.profile_file import bundled_profiles, load_profile
    from kvsim.traces.common.files import write_file

    path = Path(arguments.profile)
    if arguments.profile in bundled_profiles() and not path.exists():
        raise ValueError(
            f"{path} is a shipped profile, fitted to published tables: it holds no raw points to "
            "draw, its errors are in docs/calibration.md. Give the file that kvsim calibrate wrote "
            "on your device (profile.json)"
        )
    profile = load_profile(path)
    out = Path(arguments.out) if arguments.out else path.with_suffix(".html")
    write_file(profile_page(profile), out)
    print(harmless("\n".join([*error_lines(profile), "", f"page: {out}"])))
    return 0
