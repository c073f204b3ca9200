"""The options by which commands read a trace, shared by all that read one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.colour import harmless
from kvsim.sim.run.options import RunOptions, flag_of
from kvsim.traces.common.quantities import LARGEST

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.trace.trace import Trace


_OF_RUNS: Final = frozenset(RunOptions.__dataclass_fields__)


def add_reading_options(group: argparse._ArgumentGroup) -> None:
    """Declare how to read the file, and what to draw where it says nothing."""
    group.add_argument(
        "--format", help="format of the trace, if kvsim cannot detect it from the content"
    )
    group.add_argument("--limit", type=int, metavar="N", help="read the first N requests only")
    group.add_argument("--sort", action="store_true", help="sort requests by arrival time")
    group.add_argument(
        "--on-bad-row",
        choices=("stop", "skip"),
        default="stop",
        help="stop at a row that cannot be read or that failed, or skip it (default stop)",
    )
    group.add_argument(
        "--arrivals",
        metavar="LAW",
        help="arrival times: recorded (default), rate=R, poisson, gamma(cv=X) or "
        "weibull(shape=X), with R in 1/s; required if the file has no times; kvsim simulate "
        "also takes closed: each turn waits for the output of the turn before it",
    )
    group.add_argument("--rate", metavar="R", help="requests per second of --arrivals")
    group.add_argument(
        "--session-starts",
        metavar="LAW",
        help="start times of sessions, if the times of each session begin at 0: as --arrivals, in "
        "sessions per second",
    )
    group.add_argument(
        "--session-rate",
        metavar="R",
        help="sessions per second (without --session-starts: Poisson)",
    )
    group.add_argument(
        "--output-tokens",
        metavar="N|LAW",
        help="output lengths, if the file has none: N, lognormal(mean=M,sigma=S) or uniform(A,B)",
    )
    group.add_argument(
        "--output-ids",
        choices=("recorded", "next-turn", "anonymous"),
        default="recorded",
        help="which outputs a later prompt can hit: outputs with ids in the file (recorded, the "
        "default), outputs whose ids follow from the prompt of the next turn (next-turn), or "
        "none (anonymous)",
    )
    group.add_argument(
        "--spread-ties",
        action="store_true",
        help="spread requests with equal times evenly over the resolution of the times",
    )


def add_loop_options(group: argparse._ArgumentGroup) -> None:
    """Declare what closes the loop, for commands that replay a trace."""
    add_run_option(group, "think_time", metavar="LAW")
    add_run_option(group, "num_users", type=int, metavar="N")


def add_run_option(group: argparse._ArgumentGroup, name: str, **more: Any) -> None:
    """Declare an option of a run: default and help are those of the field of that name."""
    item = RunOptions.__dataclass_fields__[name]
    if isinstance(item.default, bool):
        more["action"] = "store_true"
    group.add_argument(flag_of(item), default=item.default, help=item.metadata["meaning"], **more)


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """Options of a run as they were given.

    Checked at once: a large trace takes minutes to read.
    """
    check_seed(arguments.seed)
    check_users(arguments)
    given = {name: value for name, value in vars(arguments).items() if name in _OF_RUNS}
    return RunOptions(**given, closed=is_closed(arguments), num_users=arguments.users)


def is_closed(arguments: argparse.Namespace) -> bool:
    """Whether turns wait for answers."""
    return str(arguments.arrivals).strip() == "closed"


def check_users(arguments: argparse.Namespace) -> None:
    """Refuse a number of users that is none, and options that say nothing beside users."""
    if arguments.users is None:
        return
    if arguments.users < 1:
        raise ValueError(f"--users is {arguments.users}; it must be at least 1")
    given = {
        "--arrivals": str(arguments.arrivals or "recorded").strip() not in ("recorded", "closed"),
        "--rate": arguments.rate is not None,
        "--session-starts": arguments.session_starts is not None,
        "--session-rate": arguments.session_rate is not None,
        "--rate-scale": arguments.rate_scale != "1",
    }
    for option, is_given in given.items():
        if is_given:
            raise ValueError(
                f"{option} says when requests arrive, and users send their next one when the one "
                f"before is answered: leave out {option} or --users"
            )


def check_seed(seed: int) -> int:
    """Return a seed that generators take; ValueError for others."""
    if not 0 <= seed <= LARGEST:
        raise ValueError(f"--seed is {seed}; allowed are whole numbers from 0 to {LARGEST}")
    return seed


_READING = (
    "format",
    "limit",
    "sort",
    "on_bad_row",
    "arrivals",
    "rate",
    "session_starts",
    "session_rate",
    "output_tokens",
    "output_ids",
    "spread_ties",
)


def reading_options(arguments: argparse.Namespace) -> dict[str, object]:
    """How a trace was read, for :func:`read_as_before`: what was given, without the defaults."""
    usual = vars(_reading_parser().parse_args([]))
    given = {name: getattr(arguments, name) for name in _READING}
    if getattr(arguments, "users", None) is not None:
        given["users"] = arguments.users
    return {name: value for name, value in given.items() if value != usual.get(name)}


def read_as_before(path: str | Path, options: dict[str, object], seed: int) -> Trace:
    """Read a trace as an earlier command did; no receipt is printed."""
    arguments = _reading_parser().parse_args([])
    vars(arguments).update({"users": None, "seed": seed}, **options)
    return read_with_options(path, arguments, quiet=True)


def _reading_parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser()
    add_reading_options(parser.add_argument_group())
    return parser


def read_with_options(
    path: str | Path,
    arguments: argparse.Namespace,
    *,
    keep_unusable: bool = False,
    quiet: bool = False,
) -> Trace:
    """Read a trace as the options say; its receipt goes to stderr unless ``quiet``.

    With ``keep_unusable`` it is read for statistics: requests without an answer or without a time
    stay in.
    """
    from kvsim.traces import read_trace
    from kvsim.traces.adjust.max_tokens import MaxTokensRule
    from kvsim.traces.adjust.output_ids import apply_output_ids
    from kvsim.traces.adjust.spread_ties import spread_ties
    from kvsim.traces.reading.drawn import arrival_rule, session_start_rule

    if is_closed(arguments) and not hasattr(arguments, "users"):
        raise ValueError("--arrivals closed is for kvsim simulate: leave it out here")
    trace = read_trace(
        Path(path),
        format=arguments.format,
        sort=arguments.sort,
        on_bad_row=arguments.on_bad_row,
        limit=arguments.limit,
        keep_unusable=keep_unusable,
        need_times=getattr(arguments, "users", None) is None,
        arrivals=arrival_rule(None if is_closed(arguments) else arguments.arrivals, arguments.rate),
        session_starts=session_start_rule(arguments.session_starts, arguments.session_rate),
        output_tokens=arguments.output_tokens,
        seed=check_seed(arguments.seed),
    )
    trace = apply_output_ids(trace, arguments.output_ids)
    if arguments.spread_ties:
        trace = spread_ties(trace)
    if trace.receipt is not None and not quiet:
        if trace.max_tokens is None and "assume_max_tokens" in arguments:
            text = arguments.assume_max_tokens
            words = MaxTokensRule.parse(text).words()
            trace.receipt.notes.append(f"max_tokens by rule {text}: {words}")
        for line in trace.receipt.lines():
            print(harmless(line), file=sys.stderr)
    return trace
