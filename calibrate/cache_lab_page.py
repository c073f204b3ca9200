"""The cache lab as one page: what a KV cache buys, and what it costs as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import log_ticks, new_figure, numbers
from kvsim.sim.report.page import Head, page
from kvsim.sim.report.palette import BLUE, LINES, VERMILLION
from kvsim.traces.common.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvsim.calibrate.measure.cache_lab import CacheRow, StepRow
    from kvsim.calibrate.validate.conversation import Turn


def lab_page(
    title: str, cache: Sequence[CacheRow], steps: Sequence[StepRow], turns: Sequence[Turn]
) -> Iterator[str]:
    """Parts of one HTML file; the conversation only where there is one."""
    charts = [_cache_chart(cache), _step_chart(steps)]
    if turns:
        charts.append(_turn_chart(turns))
    return page(Head("Cache lab", (("decoder", title),)), charts)


def _cache_chart(cache: Sequence[CacheRow]) -> Chart:
    naive = [row for row in cache if row.naive_us is not None]
    figure = new_figure("context (tokens)", "time of the next token (ms, logarithmic)")
    for name, colour, times in (
        ("with cache", BLUE, [(row.context, row.cached_us) for row in cache]),
        ("without", VERMILLION, [(row.context, row.naive_us) for row in naive]),
    ):
        figure.add_scatter(
            x=[context for context, _ in times],
            y=numbers([time_us / 1e3 for _, time_us in times if time_us is not None]),
            mode="lines+markers",
            name=name,
            line={"color": colour},
        )
    times_us = [us for row in cache for us in (row.cached_us, row.naive_us) if us is not None]
    times_ms = [us / 1e3 for us in times_us]
    figure.update_yaxes(**log_ticks(times_ms, number), rangemode="normal")
    words = "; ".join(
        f"{row.context:,} tokens {row.naive_us / row.cached_us:.1f} times as long without"
        for row in naive
        if row.naive_us is not None
    )
    return Chart(
        "Next token, with and without a KV cache",
        figure,
        "without a cache each token costs as much as reading the whole text again.",
        f"{words}.",
    )


def _step_chart(steps: Sequence[StepRow]) -> Chart:
    figure, words = new_figure("context (tokens)", "decode step (ms)"), []
    batches = dict.fromkeys(row.batch for row in steps)
    for batch, line in zip(batches, LINES, strict=False):
        chosen = [row for row in steps if row.batch == batch]
        figure.add_scatter(
            x=[row.context for row in chosen],
            y=numbers([row.step_us / 1e3 for row in chosen]),
            mode="lines+markers",
            name=f"batch {batch}",
            line=line,
        )
        growth = chosen[-1].step_us / chosen[0].step_us
        words.append(f"batch {batch} {growth:.2f} times from first to last")
    return Chart(
        "Decode step against context",
        figure,
        "the slope is the cache being read: it is steeper the larger the batch.",
        f"Growth: {', '.join(words)}.",
    )


def _turn_chart(turns: Sequence[Turn]) -> Chart:
    figure = new_figure("turn", "time per output token (ms)")
    figure.add_scatter(
        x=[turn.number for turn in turns],
        y=numbers([1e3 * turn.tpot_s for turn in turns]),
        text=[f"context {turn.context:,}" for turn in turns],
        mode="lines+markers",
        name="TPOT",
        line={"color": BLUE},
    )
    return Chart(
        "Time per output token over a conversation",
        figure,
        "a conversation gets slower turn by turn, as its cache grows (from the profile).",
        f"Turn {turns[0].number} {1e3 * turns[0].tpot_s:.3g} ms, turn {turns[-1].number} "
        f"{1e3 * turns[-1].tpot_s:.3g} ms.",
    )
