"""What a notebook shows of a run: one short table. All text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kvsim.sim.run.run import Run


def run_html(run: Run) -> str:
    """Return a table with verdict, counts, latencies, memory and cache of a run."""
    summary = run.summary
    requests, latency, hit = summary.requests, summary.latency, summary.cache.hit_percent
    states = summary.memory.all_time.states_percent.to_dict()
    rows = [
        ("verdict", summary.verdict.text),
        ("requests", f"{requests.finished:,} of {requests.total:,} finished"),
    ]
    for label, found in (
        ("TTFT", latency.ttft_s),
        ("TPOT", latency.tpot_s),
        ("ITL", latency.itl_s),
        ("E2E", latency.e2e_s),
    ):
        rows.append((label, f"p50 {seconds(found.p50)}, p99 {seconds(found.p99)}"))
    rows += [
        ("KV memory", ", ".join(f"{state} {share:.1f} %" for state, share in states.items())),
        ("preemptions", number(summary.preemptions.count)),
        ("hit rate", "-" if hit is None else f"{hit:.1f} %"),
    ]
    return html_table(repr(run).strip("<>"), (), rows)


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a caption; the first cell of each row is its head."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    head = f"<tr>{top}</tr>" if top else ""
    return f"<table><caption>{escape(caption)}</caption>{head}{body}</table>"
