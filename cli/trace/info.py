"""``kvsim trace info FILE``: what a trace holds, in numbers and a small histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.options.trace_options import read_with_options
from kvsim.cli.text.colour import as_label, joined, print_lines
from kvsim.cli.trace.input import add_input

if TYPE_CHECKING:
    import argparse

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.sim.documents.trace_info import TraceInfo
    from kvsim.traces.trace.statistics import Lengths, Statistics
    from kvsim.traces.trace.trace import Trace

_BAR: Final = 40


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "info",
        help="how kvsim understands a file, and its statistics",
        description="Print how kvsim reads a file (the receipt), and statistics of all its "
        "requests, including requests without output.",
    )
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the receipt and the statistics."""
    import json

    from kvsim.traces.trace.receipt import LABEL
    from kvsim.traces.trace.statistics import statistics_of

    trace = read_with_options(arguments.file, arguments, keep_unusable=True, quiet=True)
    statistics = statistics_of(trace)
    if arguments.json:
        print(json.dumps(info_document(trace, statistics).to_dict(), indent=2))
        return 0
    receipt = trace.receipt.lines() if trace.receipt is not None else []
    told = [joined(as_label(line[:LABEL]), line[LABEL:]) for line in receipt]
    print_lines([*told, "", *info_lines(trace, statistics)])
    return 0


def info_document(trace: Trace, statistics: Statistics) -> TraceInfo:
    """Receipt and statistics, for JSON."""
    from dataclasses import asdict

    from kvsim.sim.documents.trace_info import ReceiptFigures, TraceInfo

    receipt = trace.receipt
    return TraceInfo(
        name=trace.name,
        sha256=trace.sha256,
        statistics=statistics,
        receipt=None if receipt is None else ReceiptFigures(**asdict(receipt)),
    )


def info_lines(trace: Trace, statistics: Statistics) -> list[str]:
    """Lines of the table and the histogram, 80 columns."""
    from kvsim.cli.text.table import table, wrapped
    from kvsim.sim.scenario.checks.samples import num_several
    from kvsim.traces.common.text import counted, number, seconds

    counts = f"{counted(statistics.rows, 'row')}, {counted(statistics.requests, 'request')}"
    for name in ("failed", "skipped"):
        if getattr(statistics, name):
            counts += f", {number(getattr(statistics, name))} {name}"
    if statistics.zero_outputs:
        counts += f", {number(statistics.zero_outputs)} without an output"
    if several := num_several(trace):
        counts += f", {number(several)} for several outputs"
    for name in ("sessions", "users"):
        if (count := getattr(statistics, name)) is not None:
            counts += f", {counted(count, name[:-1])}"
    lines = wrapped("requests", counts)
    arrivals = statistics.arrivals
    if arrivals is None:
        has_times = trace.receipt is None or trace.receipt.has_times
        why = "when its sessions start" if has_times else "when requests arrive"
        lines += wrapped("arrivals", f"the file does not say {why}")
    else:
        rate = f"{number(arrivals.rate_per_s)}/s over {seconds(arrivals.span_s)}"
        text = f"{rate}, CV of gaps {number(arrivals.gap_cv)}"
        if arrivals.requests < statistics.requests:
            own = ("request that has times of its", "requests that have times of their")
            text += f", of the {counted(arrivals.requests, *own)} own"
        lines += wrapped("arrivals", text)
        dispersion = ", ".join(f"{number(value)} ({s} s)" for s, value in arrivals.iod.items())
        if dispersion:
            lines += wrapped("dispersion (IoD)", dispersion)
    rows = [["tokens", "mean", "p50", "p90", "p99", "max"], _row("prompt", statistics.prompt)]
    if statistics.output is not None:
        rows.append(_row("output", statistics.output))
    lines += ["", *table(rows)]
    lines += ["", *_histogram("prompt tokens", trace.prompt_tokens)]
    if statistics.output is not None:
        lines += ["", *_histogram("output tokens", trace.output_tokens)]
    return lines


def _row(name: str, lengths: Lengths) -> list[str]:
    shown = (lengths.mean, lengths.p50, lengths.p90, lengths.p99)
    return [name, *(f"{value:,.1f}" for value in shown), f"{lengths.max:,}"]


def _histogram(title: str, tokens: NDArray[np.int64]) -> list[str]:
    from kvsim.traces.trace.statistics import length_histogram

    classes = length_histogram(tokens)
    most = max(count for _, count in classes)
    lines = [as_label(title)]
    for edge, count in classes:
        bar = "#" * max(round(_BAR * count / most), 1 if count else 0)
        share = f"{100 * count / len(tokens):.1f} %"
        lines.append(f"  up to {edge:>13,} {share:>9}  {bar}".rstrip())
    return lines
