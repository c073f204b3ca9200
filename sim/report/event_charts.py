"""Figures of events: cache hits, preemptions, swapping, and what step time is spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.load_charts import GIB, add_area, time_chart, time_figure
from kvsim.sim.report.palette import BLUE, GREEN, ORANGE, PALE, SKY, VERMILLION
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from kvsim.sim.report.run_page import RunView

STEP_PARTS: Final = {
    "weights": ("weights", VERMILLION),
    "kv": ("KV of decodes", BLUE),
    "prefill": ("prefill attention", SKY),
    "overhead": ("overhead", ORANGE),
    "idle": ("no step", PALE),
}
"""Label and colour of each part of step time; weights and KV as on the page of a plan."""
_NO_TIME_S: Final = 1e-12
_FEW: Final = 6
"""Largest number of events for which an axis has a tick at each number."""


def hit_chart(view: RunView) -> Chart | str:
    """Share of prompt tokens that were found in the cache, by arrival time."""
    columns = view.columns
    prompts = columns.prompt_tokens * columns.num_prompts
    if not columns.hit_tokens.any():
        return "Prefix cache hits: no prompt token was found in the cache."
    points = [
        (middle, 100 * columns.hit_tokens[part].sum() / max(prompts[part].sum(), 1))
        for middle, part in view.parts()
    ]
    figure = new_figure("arrival (s)", "prompt tokens found in the cache (%)")
    figure.add_scatter(
        x=numbers([middle for middle, _ in points]),
        y=numbers([percent for _, percent in points]),
        name="hit rate",
        mode="lines" if len(points) > 1 else "markers",
        cliponaxis=len(points) > 1,
        line={"color": BLUE},
    )
    figure.update_xaxes(rangemode="nonnegative")
    figure.update_yaxes(range=[0, 100])
    share = 100 * columns.hit_tokens.sum() / prompts.sum()
    return Chart(
        "Prefix cache hits",
        figure,
        "the hit rate rises while the cache fills. If it falls later, blocks are evicted before "
        "the next prompt needs them.",
        f"Over the whole run, {share:.1f} % of the prompt tokens were found in the cache.",
    )


def preemption_chart(view: RunView) -> Chart | str:
    """Preemptions over time."""
    series = view.series
    if not series["preemptions"].any():
        return "Preemptions: no running request was preempted."
    figure = time_figure(view, "preemptions")
    figure.add_bar(
        x=view.stretch_middle_s,
        y=view.summed("preemptions"),
        name="preemptions",
        marker={"color": VERMILLION, "line": {"width": 0}},
    )
    if max(y or 0 for y in figure.data[0].y) < _FEW:
        figure.update_yaxes(dtick=1)  # no half preemptions
    columns = view.columns
    lost, again = int(columns.lost_tokens.sum()), int(columns.resume_hit_tokens.sum())
    found = f"; {again:,} of them were found in the cache again" if again else ""
    return time_chart(
        view,
        "Preemptions",
        figure,
        "each preemption discards computed tokens or moves them to the host. Many preemptions in a "
        "row mean that the scheduler admitted more requests than the memory can hold.",
        f"{counted(int(series['preemptions'].sum()), 'preemption')} of "
        f"{counted(int((columns.preemptions > 0).sum()), 'request')}. They lost "
        f"{counted(lost, 'computed token')}{found}.",
    )


def swap_chart(view: RunView) -> Chart | str:
    """Bytes on the host, and bytes swapped out and in, over time."""
    series = view.series
    if not series["swapped_out_bytes"].any():
        return "Swapping: no block was moved to the host."
    figure = time_figure(view, "bytes (GiB)")
    for column, name, colour in (
        ("swapped_out_bytes", "swapped out", VERMILLION),
        ("swapped_in_bytes", "swapped in", GREEN),
    ):
        gib = numbers([(value or 0.0) / GIB for value in view.summed(column)])
        figure.add_bar(x=view.stretch_middle_s, y=gib, name=name, marker={"color": colour})
    line = {"color": BLUE, "width": 2}
    held = view.over_time(series["host_bytes"] / GIB)
    figure.add_scatter(**held, name="on the host", mode="lines", line=line)
    moved = {way: series[f"swapped_{way}_bytes"].sum() / GIB for way in ("out", "in")}
    return time_chart(
        view,
        "Swapping",
        figure,
        "each block that is swapped out should be swapped in once. A high line means that many "
        "preempted requests wait on the host.",
        f"{moved['out']:.2f} GiB were swapped out and {moved['in']:.2f} GiB were swapped in. The "
        f"host held {view.mean('host_bytes') / GIB:.2f} GiB on average.",
    )


def step_chart(view: RunView) -> Chart | str:
    """Share of time by part of the step."""
    series = view.series
    figure, words = time_figure(view, "share of time (%)"), []
    total = series["seconds"].sum()
    for part, (label, colour) in STEP_PARTS.items():
        column = series[f"{part}_s"]
        if column.any():
            percent = 100 * column / np.maximum(series["seconds"], _NO_TIME_S)
            add_area(figure, view, percent, label, colour)
            words.append(f"{label} {100 * column.sum() / total:.1f} %")
    if not words:
        return "Where step time goes: no step took time."
    figure.update_yaxes(range=[0, 100])
    return time_chart(
        view,
        "Where step time goes",
        figure,
        "each step reads the weights once, whatever its batch. If KV takes more time than the "
        "weights, longer contexts slow down all requests.",
        f"Share of all time: {', '.join(words)}.",
    )
