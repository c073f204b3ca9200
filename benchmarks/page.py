"""Show the figures of ``run.py``: as text, ``docs/performance.md`` and ``docs/performance.csv``."""

from __future__ import annotations

import csv
import io
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


SHOWN: Final = (
    "queue-sjf", "batch-prefill-first", "evict-gdsf", "preempt-swap", "victim-most-blocks",
    "evict-furthest-next-use", "evict-lfu", "evict-lru", "chat-tight", "chat-over", "chat-light",
    "tight-oracle-best-fit", "long", "tight", "light", "over", "million",
)  # fmt: skip
"""Cases in the table of the page, the slow ones first."""
PAGE: Final = """\
# Performance

How many requests does kvsim simulate in a second of CPU time, and what is slow? Measure it on your
machine:

```sh
python benchmarks/run.py --quick
```

**What is slow.** The stepper touches every request of every step. Policies that only the stepper
simulates take 1.5 to 2.9 ms of CPU time for each request here. The leaper is 13 to 106 times as
fast as the stepper on the same requests. It simulates FCFS under three batching policies
(`mixed-running-first`, `iteration-level`, `no-evict`), with block tables, radix trees and
reservations, and some eviction orders ([Eviction](eviction.md#speed)). The stepper simulates all
other queue orders, batching policies, victims and eviction orders, swapping, sliding windows, and
your own policies.

{table}

- Times are CPU seconds of one process for the engine and its driver with recording on. Reading the
  trace and writing results are not included.
- `ratio` is the CPU time of the stepper / that of the leaper on the same requests in the same run.
  `x base` is the CPU time of a policy / that of its base policy on the same requests.
- [performance.csv](performance.csv) has all rows, with a description of each case. Its column
  `asked` is the project's target; a row can miss it.
- `python benchmarks/profile_parts.py` shows which parts of the leaper take the time.
- Measured on {date}: {processor}, {cores} cores, {system}, Python {python}, numpy {numpy}, load
  average {load}. Times differ by tens of percent between machines and between runs. The ratios are
  more reliable.

The names in the table: `light`, `over` and `tight` are an under-loaded server, an overloaded
server, and a server whose small pool causes preemptions. `chat-*` has 95 prompt blocks in each
prompt, most of them shared. `evict-*`, `queue-*`, `batch-*`, `victim-*` and `preempt-*` change one
policy.

`python benchmarks/run.py --markdown docs/performance.md` writes this page and the data.
"""


def page(lines: Sequence[Sequence[str]], where: dict[str, str]) -> str:
    """Return the text of ``docs/performance.md`` from lines of ``cells``."""
    columns = [
        HEAD.index(name) for name in ("case", "engine", "us/req", "req/s", "ratio", "x base")
    ]
    shown = [line for name in SHOWN for line in lines if line[:2] == [name, "vllm-0.32-sync"]]
    rows = [HEAD, ["---"] * len(HEAD), *shown]
    table = "\n".join(f"| {' | '.join(line[column] for column in columns)} |" for line in rows)
    return PAGE.format(table=table, **where)


def data(lines: Sequence[Sequence[str]], about: dict[str, str]) -> str:
    """Return the text of ``docs/performance.csv``: one row for each case and preset."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*HEAD, "about"])
    writer.writerows([*line, about[line[0]]] for line in lines)
    return text.getvalue()
