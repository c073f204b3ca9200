"""``kvsim validate``: ``schedule LOG`` replays a recorded schedule and compares every decision."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.colour import harmless
from kvsim.cli.validate import local as validate_local
from kvsim.cli.validate import run as validate_run

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.conformance.difference import Difference
    from kvsim.sim.conformance.recordings import Recording
    from kvsim.traces.trace.trace import Trace

_WIDTH: Final = 80
_LABEL: Final = 20
_SHOWN: Final = 3


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "validate",
        help="compare with recordings of real engines",
        description="Compare kvsim with recordings of real engines.",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    schedule = kinds.add_parser(
        "schedule",
        help="replay a recorded schedule step by step",
        description="Replay a recorded schedule (vLLM) or recorded cache operations (SGLang) "
        "and compare each decision. Print 'identical: N steps', or the first "
        "difference side by side (exit code 1). See docs/conformance.md.",
    )
    schedule.add_argument(
        "log",
        metavar="LOG",
        help="recorded schedule or cache log (JSON lines, with or without gzip)",
    )
    schedule.add_argument(
        "--trace",
        metavar="TRACE",
        help="trace of the log (default: the file with its name in the folder of LOG, in traces/ "
        "there, or in ../vllm/traces)",
    )
    schedule.add_argument(
        "--options",
        metavar="FILE",
        help="JSON object of options that replace those of the log's header",
    )
    schedule.add_argument(
        "--step", action="store_true", help="use the stepper, the reference engine"
    )
    schedule.set_defaults(handler=run)
    validate_run.add_parser(kinds)
    validate_local.add_parser(kinds)


def run(arguments: argparse.Namespace) -> int:
    """Replay and compare; 0 identical, 1 different."""
    from kvsim.sim.conformance.cache_log import is_cache_log
    from kvsim.sim.conformance.recordings import read_records

    path = Path(arguments.log)
    records = read_records(path)
    compare = _compare_cache if is_cache_log(records) else _compare_schedule
    difference, what = compare(path, records, arguments)
    if difference is not None:
        print(harmless("\n".join(report(difference))))
        return 1
    print(harmless(f"identical: {what}"))
    return 0


def _compare_schedule(
    path: Path, records: list[dict[str, Any]], arguments: argparse.Namespace
) -> tuple[Difference | None, str]:
    """Replay a schedule of vLLM: the first difference, and what was compared."""
    from kvsim.sim.conformance.schedule_replay import replay
    from kvsim.sim.conformance.vllm_log import schedule_log

    log = schedule_log(path, records)
    trace = _read_trace(log, arguments.trace)
    verdict = replay(log, trace, _read_options(arguments.options), step=arguments.step)
    return verdict.difference, f"{verdict.num_steps} steps"


def _compare_cache(
    path: Path, records: list[dict[str, Any]], arguments: argparse.Namespace
) -> tuple[Difference | None, str]:
    """Replay cache operations of SGLang: the first difference, and what was compared."""
    from kvsim.sim.conformance.cache_log import cache_log
    from kvsim.sim.conformance.cache_replay import replay_cache

    log = cache_log(path, records)
    if arguments.step:
        print("note: --step changes nothing: only the cache is replayed", file=sys.stderr)
    trace = _read_trace(log, arguments.trace)
    verdict = replay_cache(log, trace, _read_options(arguments.options))
    return (
        verdict.difference,
        f"{verdict.num_operations} operations (cache verified, scheduler not)",
    )


def _read_trace(log: Recording, given: str | None) -> Trace:
    """Read the trace; a note on stderr where it is not the one that the header names."""
    from kvsim.sim.conformance.recordings import find_trace, is_trace_of
    from kvsim.traces import read_trace

    path = Path(given) if given is not None else find_trace(log)
    trace = read_trace(path)
    is_golden = trace.receipt is not None and trace.receipt.format == "golden"
    if is_golden and not is_trace_of(log, path):
        print(f"note: {path} is not the trace that was recorded", file=sys.stderr)
    return trace


def _read_options(path: str | None) -> dict[str, Any]:
    import json

    if path is None:
        return {}
    try:
        options = json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        msg = f"{path}: not a JSON object of options: {error}"
        raise ValueError(msg) from None
    if not isinstance(options, dict):
        msg = f"{path}: options are a JSON object, not {type(options).__name__}"
        raise ValueError(msg)
    return options


def report(difference: Difference) -> list[str]:
    """Lines that show a difference: where, what came before, theirs beside ours."""
    lines = [f"different at {difference.place}: {difference.field}"]
    if difference.before:
        lines += ["", "before:", *(f"  {line}" for line in difference.before)]
    column = (_WIDTH - _LABEL) // 2
    lines += ["", f"{'':{_LABEL}}{'theirs':{column}}ours"]
    for field, theirs, ours in difference.fields:
        for label, left, right in _rows(field, theirs, ours):
            gap = " " * max(column - len(left), 2)
            lines.append(f"{label:{_LABEL}}{left}{gap}{right}")
    return lines


def _rows(field: str, theirs: object, ours: object) -> list[tuple[str, str, str]]:
    """One row for a plain value; for a list a few entries from the first that differs."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        differ = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        return [(f"{field}[{key}]", _text(theirs.get(key)), _text(ours.get(key))) for key in differ]
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return [(field, _text(theirs), _text(ours))]
    longest = max(len(theirs), len(ours))
    first = next(
        number
        for number in range(longest)
        if theirs[number : number + 1] != ours[number : number + 1]
    )
    rows = []
    for number in range(first, min(first + _SHOWN, longest)):
        left, right = (_entry(values, number) for values in (theirs, ours))
        rows.append((f"{field}[{number}]", left, right))
    if longest > first + _SHOWN:
        rows.append(("", f"({len(theirs)} in all)", f"({len(ours)} in all)"))
    return rows


def _entry(values: list[object], number: int) -> str:
    return _text(values[number]) if number < len(values) else "-"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
