"""Figures of what happens in between: cache hits, preemptions, swapping, what steps are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import new_figure, numbers
from kvsim.sim.report.load_charts import GIB, add_area, time_figure
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
"""What time goes into, in words, and its colour: weights and KV as on the page of a plan."""
_NO_TIME_S: Final = 1e-12
_FEW: Final = 6
"""Events up to which an axis has a tick for each."""


def hit_chart(view: RunView) -> Chart | str:
    """Share of prompt tokens that were found in the cache, by when requests arrived."""
    columns = view.columns
    prompts = columns.prompt_tokens * columns.num_prompts
    if not columns.hit_tokens.any():
        return "No prefix cache hits: no prompt token was found in a cache."
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
        "it rises while the cache fills; a fall later means that blocks are evicted before they "
        "are asked for again.",
        f"Over the whole run {share:.1f} % of prompt tokens.",
    )


def preemption_chart(view: RunView) -> Chart | str:
    """Preemptions over time."""
    series = view.series
    if not series["preemptions"].any():
        return "No preemptions: no running request lost its memory."
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
    found = f", {again:,} of them found in the cache again" if again else ""
    return Chart(
        "Preemptions",
        figure,
        "each one throws work away or moves it; many in a row mean that too much was let in.",
        f"{counted(int(series['preemptions'].sum()), 'preemption')} of "
        f"{counted(int((columns.preemptions > 0).sum()), 'request')}, "
        f"{counted(lost, 'computed token')} lost{found}.",
    )


def swap_chart(view: RunView) -> Chart | str:
    """Bytes on the host, and bytes moved there and back, over time."""
    series = view.series
    if not series["swapped_out_bytes"].any():
        return "No swap traffic: nothing was moved to the host."
    figure = time_figure(view, "bytes (GiB)")
    for column, name, colour in (
        ("swapped_out_bytes", "moved out", VERMILLION),
        ("swapped_in_bytes", "moved back", GREEN),
    ):
        gib = numbers([(value or 0.0) / GIB for value in view.summed(column)])
        figure.add_bar(x=view.stretch_middle_s, y=gib, name=name, marker={"color": colour})
    line = {"color": BLUE, "width": 2}
    held = view.over_time(series["host_bytes"] / GIB)
    figure.add_scatter(**held, name="on the host", mode="lines", line=line)
    moved = {way: series[f"swapped_{way}_bytes"].sum() / GIB for way in ("out", "in")}
    return Chart(
        "Swapping",
        figure,
        "what goes out should come back once; a high line is memory that waits for its turn.",
        f"{moved['out']:.2f} GiB out, {moved['in']:.2f} GiB back; on the host "
        f"{view.mean('host_bytes') / GIB:.2f} GiB in the mean.",
    )


def step_chart(view: RunView) -> Chart | str:
    """Share of time by what it goes into."""
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
        return "No step times: no step took time."
    figure.update_yaxes(range=[0, 100])
    return Chart(
        "Where step time goes",
        figure,
        "weights are the price of a step whatever is in it; once KV overtakes them, longer "
        "contexts slow everyone down.",
        f"Of all time: {', '.join(words)}.",
    )
