"""The cache lab as one plotly page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvsim.calibrate.conversation import Turn
    from kvsim.calibrate.measure.cache_lab import CacheRow, StepRow


def write_lab_page(
    title: str,
    cache: Sequence[CacheRow],
    steps: Sequence[StepRow],
    turns: Sequence[Turn],
    path: Path,
) -> None:
    """Write the tables as curves; the conversation only where there is one."""
    from plotly.subplots import make_subplots

    titles = ["next token, with and without a KV cache", "decode step against context"]
    if turns:
        titles.append("time per output token over a conversation (from the profile)")
    figure = make_subplots(rows=len(titles), cols=1, subplot_titles=titles)
    naive = [row for row in cache if row.naive_us is not None]
    for name, xs, ys in (
        ("with cache", [r.context for r in cache], [r.cached_us / 1e3 for r in cache]),
        ("without", [r.context for r in naive], [(r.naive_us or 0.0) / 1e3 for r in naive]),
    ):
        figure.add_scatter(x=xs, y=ys, mode="lines+markers", name=name, row=1, col=1)
    for batch in dict.fromkeys(row.batch for row in steps):
        chosen = [row for row in steps if row.batch == batch]
        figure.add_scatter(
            x=[row.context for row in chosen],
            y=[row.step_us / 1e3 for row in chosen],
            mode="lines+markers",
            name=f"batch {batch}",
            row=2,
            col=1,
        )
    figure.update_xaxes(title_text="context (tokens)")
    figure.update_yaxes(title_text="ms", rangemode="tozero")
    figure.update_yaxes(type="log", row=1, col=1)
    if turns:
        figure.add_scatter(
            x=[turn.number for turn in turns],
            y=[1e3 * turn.tpot_s for turn in turns],
            text=[f"context {turn.context:,}" for turn in turns],
            mode="lines+markers",
            name="TPOT",
            row=3,
            col=1,
        )
        figure.update_xaxes(title_text="turn", row=3, col=1)
    figure.update_layout(title=title, template="plotly_white", height=420 * len(titles))
    figure.write_html(path, include_plotlyjs=True, div_id="cache-lab")
