"""``kvsim simulate --watch``: whether and how fast to show the pool while it fills."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import is_terminal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

    from kvsim.sim.engine.observer import Observer
    from kvsim.sim.scenario.scenario import Scenario

_FASTEST: Final = "max"


def add_watch_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options."""
    group.add_argument(
        "--watch",
        action="store_true",
        help="show the pool during the run: the six states of KV memory (here 'reserved' includes "
        "internal fragmentation), queue, hit rate, tokens per second",
    )
    group.add_argument(
        "--watch-speed",
        metavar="X",
        help="simulated seconds per second, or max (default: all requests arrive within 20 s)",
    )


def check_watch(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be watched before the trace is read.

    Raises
    ------
    ValueError
        Without a terminal, beside ``--json``, and on a speed that is none.
    """
    if not arguments.watch:
        if arguments.watch_speed is not None:
            raise ValueError("--watch-speed needs --watch")
        return
    if arguments.json:
        raise ValueError("--watch draws on the terminal that --json prints to: leave one out")
    if not is_terminal(sys.stdout):
        raise ValueError("--watch needs a terminal, and standard output is none: leave --watch out")
    if os.environ.get("TERM") == "dumb":
        raise ValueError("--watch moves the cursor, which TERM=dumb cannot: leave --watch out")
    _speed(arguments.watch_speed)


@contextmanager
def watching(arguments: argparse.Namespace, scenario: Scenario) -> Generator[list[Observer]]:
    """Observers that draw the panel for the block that simulates, if one is asked for.

    The terminal is as before afterwards, however the block ends.
    """
    if not arguments.watch:
        yield []
        return
    from kvsim.cli.text.watch import Watch
    from kvsim.sim.scenario.setup import set_up

    with Watch(scenario, set_up(scenario).pool, _speed(arguments.watch_speed)) as watch:
        yield [watch]


def _speed(text: str | None) -> float | None:
    """Simulated seconds a second; ``inf`` for ``max``, ``None`` where the trace decides."""
    if text is None:
        return None
    if text == _FASTEST:
        return float("inf")
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ValueError(f"--watch-speed is {text!r}; it must be a number above 0, or max")
    return speed
