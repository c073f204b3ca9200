"""``kvsim calibrate fit PATH...``: a profile from other people's kernel tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.calibrate.sources import SOURCES
from kvsim.cli.options.completion import FILES
from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "fit",
        help="a profile from published kernel tables",
        description="Fit the terms of the step cost to published tables. Print each term with "
        "its meaning and its error on points that the fit did not see, and write a "
        "profile for kvsim simulate --hardware CARD --set cost.source=FILE.",
    )
    paths = parser.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="tables (.csv, .csv.gz), or folders"
    )
    paths.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.add_argument(
        "--format", required=True, choices=SOURCES, metavar="NAME", help=", ".join(SOURCES)
    )
    parser.add_argument(
        "--model", required=True, metavar="NAME", help="model whose layer the tables are of"
    )
    parser.add_argument(
        "--tp", default=1, type=int, metavar="N", help="ranks it was split over (default 1)"
    )
    parser.add_argument(
        "--hardware", metavar="CARD", help="which card, where the tables are of several"
    )
    parser.add_argument("--name", help="name of the profile (default: card-model)")
    out = parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the profile here (default: print only)"
    )
    out.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, fit, print, write."""
    from kvsim.calibrate.sources.request import ReadRequest
    from kvsim.cli.text.fit_table import fit_lines
    from kvsim.sim.cost.profile_file import dump_profile
    from kvsim.sim.hardware import load_hardware
    from kvsim.sim.models import load_model
    from kvsim.traces.common.files import check_file, write_file

    if arguments.out is not None:
        check_file(arguments.out)
    model = load_model(arguments.model)
    model.check_tp(arguments.tp)
    if arguments.hardware is not None:
        load_hardware(arguments.hardware)
    request = ReadRequest(tuple(arguments.paths), model, arguments.tp, arguments.hardware)

    from kvsim.calibrate.fit.fit import fit_profile
    from kvsim.calibrate.sources import read_measurements

    measurements = read_measurements(arguments.format, request)
    name = arguments.name or f"{measurements.hardware}-{model.name}"
    calibration = fit_profile(measurements, name)
    print(harmless("\n".join(fit_lines(calibration))))
    if arguments.out is not None:
        write_file([dump_profile(calibration.profile)], arguments.out)
        print(f"\nwritten to {arguments.out}")
    return 0
