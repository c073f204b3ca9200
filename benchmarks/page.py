"""How figures of ``run.py`` are shown: as a table of text, and as ``docs/performance.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.run import Row

HEAD: Final = (
    "case", "preset", "engine", "requests", "CPU s", "us/req", "req/s", "steps/req", "hit %",
    "preempt/req", "stepper us/req", "ratio", "x base", "peak MB", "asked",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """Texts of one table line."""

    def optional(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    return [
        row.case,
        row.preset,
        row.engine,
        f"{row.requests:,}",
        f"{row.cpu_s:.2f}",
        f"{row.us_per_request:.1f}",
        f"{row.requests_per_s:,.0f}",
        f"{row.steps_per_request:.1f}",
        f"{100 * row.hit_rate:.1f}",
        f"{row.preemptions_per_request:.2f}",
        optional(row.step_us_per_request, ".0f"),
        optional(row.ratio, ".1f"),
        optional(row.over_baseline, ".2f"),
        optional(row.peak_mb, ".0f"),
        row.goal,
    ]


def table(rows: Sequence[Row]) -> str:
    """Aligned text: words to the left, numbers to the right."""
    lines = [list(HEAD), *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = {0, 1, 2, len(HEAD) - 1}
    return "\n".join(
        "  ".join(
            text.ljust(width) if place in words else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


PAGE: Final = """\
# Performance

Written by `python benchmarks/run.py --markdown docs/performance.md`; do not edit by hand.

Measured on {date}: {processor}, {cores} cores, {system}, Python {python}, numpy {numpy}.
The figures are CPU seconds of one process around the engine and its driver with recording on;
making or reading the trace is outside. They move by tens of percent between machines and with
what else a machine does (load average of the last 15 minutes: {load}): trust the ratios, which come
from one run of both engines on the same requests, with equal finish times.
`--quick` runs a tenth of the requests of all but policies, `--out` and `--from` put rows of several
processes together: the column `requests` has what was run.

{table}

- `ratio`: CPU time of the stepper over that of the leaper, on the first requests of the trace.
- `x base`: CPU time of a policy over that of its baseline (named under Cases), same requests, same
  engine. A policy also changes what the engine does (batches, hits, preemptions), and that counts.
- `engine`: which one ran; where the leaper cannot prove its shortcuts, the stepper runs.
- `asked`: what the project set out to reach. A figure that misses it is left as it is.

Cases:

{about}

What misses 12,000 or 5,000 requests a CPU second, and why:

- `lru` and the tree on chats are near it. In a profile of `chat-light-radix` (4,000 requests)
  matching has 14 %, inserting 12 % and evicting 5 %; the rest is the leaps' own. There is no one
  part to win at.
- `lfu`, `slru` and `length-aware` keep runs of blocks, as `lru` does, but with a heap for a queue,
  and a request evicts about eight runs. `length-aware` takes the block furthest back in its prompt,
  so equal runs lose a block each in turn: 60 steps of the heap a request in a profile.
- `mru`, `random` and `furthest-next-use` are leapt block by block: of a block with a second copy
  they may take the head of a run first, any block, or one for its own distance. A request touches
  all of its 95 blocks, so their time goes into those, one Python call each.
- All other orders over hashed blocks look at *when* a block came in, and most batchings, queue
  orders, victims and swapping decide in each step: the stepper runs, which touches every sequence
  of each step. `x base` says what they cost beside it. Such rows are short: 300 requests fill the
  pool once, and preempt less than the 3,000 of rows that are leapt.

`long` is overloaded at 4 requests/s: what arrives (all 20,000) in 4,987 s is served in 8,639 s, with 2.9
preemptions a request, each of which computes again what it lost. `long-even` has the same lengths
at as many tokens a second as `light`: it is the row to compare with `light`.

## Where the time goes

Shares of a profile of the leaper, by `python benchmarks/profile_parts.py` (8,000 requests,
`vllm-0.32-sync`; own time of the functions, with the builtins they call). They move by a few
points from run to run, and a profile charges every call, so small functions look dearer than they
are: trust the order.

| part | `light` | `chat-over` |
| --- | --- | --- |
| accounting (memory integrals, token gaps, queue) | 32 % | 9 % |
| SimPy and the driver | 16 % | 4 % |
| admission (look-ups, rules, blocks of a prompt) | 8 % | 16 % |
| publishing of shared answers | 0 % | 27 % |
| giving cached blocks up, evicting | 2 % | 30 % |
| planning and ending leaps | 42 % | 14 % |

Without a prefix cache a request costs about three leaps, and each leap is planned, accounted for
and waited for once. Chats pay for their tree of blocks instead: answers whose ids another request
knows get their keys on time, in pieces, and the pieces are evicted one by one.
"""


def page(rows: Sequence[Row], where: dict[str, str]) -> str:
    """The text of ``docs/performance.md``."""
    lines = [HEAD, ["---"] * len(HEAD), *map(cells, rows)]
    about = {row.case: row.about for row in rows}
    return PAGE.format(
        table="\n".join(f"| {' | '.join(line)} |" for line in lines),
        about="\n".join(f"- `{case}`: {text}" for case, text in about.items()),
        **where,
    )
