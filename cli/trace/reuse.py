"""``kvsim trace reuse FILE``: hit ratio of a prefix cache against its size, without any timing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.options.trace_options import read_with_options
from kvsim.cli.text.colour import print_lines
from kvsim.cli.trace.input import add_input
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.reuse import Reuse

DEFINITIONS: Final = ("tree", "plain")
UNITS: Final = {"tree": "tokens", "plain": "blocks"}
"""What hit ratios weigh where ``--weights`` does not say, by definition."""
_WINDOW: Final = re.compile(r"([0-9]*):([0-9]*)")


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "reuse",
        help="hit ratio of a prefix cache of every size, exactly and without timing",
        description="Print the hit ratio of a prefix cache by its size: LRU at every size in "
        "one pass, other policies at selected sizes. See docs/reuse.md.",
    )
    add_input(parser)
    group = parser.add_argument_group("what counts")
    group.add_argument(
        "--definition",
        choices=DEFINITIONS,
        default="tree",
        help="prefix tree, in which leading blocks hit (default), or plain cache of single blocks",
    )
    group.add_argument(
        "--weights",
        choices=("blocks", "tokens"),
        help="weight of hit_ratio (default: tokens for tree, blocks for plain)",
    )
    counted = group.add_mutually_exclusive_group()
    counted.add_argument(
        "--warmup", type=int, default=0, metavar="N", help="do not count the first N requests"
    )
    counted.add_argument(
        "--window", metavar="A:B", help="count requests A to before B only, from 0"
    )
    group = parser.add_argument_group("caches")
    group.add_argument(
        "--capacities",
        metavar="LIST|all",
        help="sizes in blocks, such as 1000,5000; all: each size at which LRU gains "
        "(default 1, 2, 5, 10, ... up to the largest useful size)",
    )
    group.add_argument(
        "--policies",
        default="",
        metavar="LIST",
        help="also replay these: fifo, lfu, sieve, s3-fifo, optimal (furthest next use), lru",
    )
    group.add_argument(
        "--kv-bytes-per-token", type=int, metavar="N", help="also show sizes in bytes"
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "--sessions", action="store_true", help="show the largest possible hit ratio by session"
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--plot", metavar="FILE.html", help="write a plot that opens offline")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, replay and print."""
    import json

    from kvsim.cli.trace import reuse_output
    from kvsim.traces.reuse import POLICIES, measure_reuse

    policies = [name for name in arguments.policies.split(",") if name]
    for name in policies:
        if name not in POLICIES:
            raise ValueError(unknown("--policies", name, POLICIES))
    per_token = arguments.kv_bytes_per_token
    if per_token is not None and per_token < 1:
        raise ValueError(f"--kv-bytes-per-token is {per_token}; allowed are whole numbers from 1")
    first, end = _window(arguments.warmup, arguments.window)
    trace = read_with_options(arguments.file, arguments, keep_unusable=True)
    reuse = measure_reuse(trace, arguments.definition, first=first, end=end)
    capacities = _capacities(arguments.capacities, reuse, replayed=bool(policies))
    unit = arguments.weights or UNITS[arguments.definition]
    shown = reuse_output.Shown(trace, reuse, capacities, unit, policies, per_token)
    if arguments.sessions:
        shown.add_sessions()
    if arguments.plot is not None:
        from kvsim.cli.trace.reuse_output import reuse_page
        from kvsim.traces.common.files import write_file

        write_file(reuse_page(shown), Path(arguments.plot))
    if arguments.json:
        print(json.dumps(shown.document().to_dict(), indent=1))
    else:
        print_lines(shown.lines())
    return 0


def _window(warmup: int, window: str | None) -> tuple[int, int | None]:
    if window is None:
        if warmup < 0:
            raise ValueError(f"--warmup is {warmup}; allowed are whole numbers from 0")
        return warmup, None
    match = _WINDOW.fullmatch(window)
    if match is None:
        raise ValueError(f"--window is {window!r}; it has the form A:B, such as 1000:5000 or 1000:")
    return int(match[1] or 0), int(match[2]) if match[2] else None


def _capacities(text: str | None, reuse: Reuse, *, replayed: bool) -> list[int]:
    if text is None:
        return reuse.capacities()
    if text == "all":
        if replayed:
            raise ValueError("--capacities all is for LRU alone: name the sizes for --policies")
        return [int(capacity) for capacity in reuse.curve.capacities]
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and 1 <= int(part) < 2**62 for part in parts):
        raise ValueError(
            f"--capacities is {text!r}; it is a list of whole numbers of blocks from 1, such as "
            "1000,5000, or all"
        )
    return sorted({int(part) for part in parts})
