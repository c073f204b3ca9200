"""The reuse curve as one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.trace.reuse_output import short_count
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import log_ticks, new_figure, numbers
from kvsim.sim.report.page import Head, page
from kvsim.sim.report.palette import GREY, LINES
from kvsim.traces.common.counted import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import plotly.graph_objects as go

    from kvsim.cli.trace.reuse_output import Shown

_MOST_POINTS: Final = 2_000


def reuse_page(shown: Shown) -> Iterator[str]:
    """Parts of one HTML file: hit ratio against capacity."""
    trace = shown.trace
    digest = f", sha256 {trace.sha256[:16]}" if trace.sha256 else ""
    facts = (
        ("trace", f"{trace.name}, {counted(len(trace), 'request')}{digest}"),
        ("counted", f"{shown.reuse.definition}, hit ratio in {shown.unit}"),
    )
    return page(Head(f"{trace.name}: prefix reuse", facts), [_chart(shown)])


def _chart(shown: Shown) -> Chart:
    curve, unit = shown.reuse.curve, shown.unit
    tokens = shown.reuse.accesses.block_tokens
    figure = new_figure(
        f"capacity (blocks of {tokens} tokens, logarithmic)", f"hit ratio (% of {unit})", height=460
    )
    _add_curve(figure, shown)
    for (policy, replay), line in zip(shown.replays.items(), LINES[1:], strict=False):
        figure.add_scatter(
            x=list(shown.capacities),
            y=numbers([100 * hits.ratio(unit) for hits in replay]),
            mode="lines+markers",
            line=line,
            name=policy,
        )
    ceiling = 100 * curve.at(curve.largest_useful).ratio(unit)
    figure.add_hline(
        y=ceiling,
        line={"color": GREY, "dash": "dash"},
        annotation_text=f"infinite cache {ceiling:.2f} %",
        annotation_position="bottom right",
    )
    largest = max([*shown.capacities, curve.largest_useful, 10])
    figure.update_xaxes(**log_ticks([1, largest], short_count))
    return Chart(
        "Hit ratio against capacity",
        figure,
        "where the curve reaches the dashed line a larger cache buys nothing.",
        f"An infinite cache finds {ceiling:.2f} %; {curve.largest_useful:,} blocks find as much.",
    )


def _add_curve(figure: go.Figure, shown: Shown) -> None:
    """LRU at every size; long curves are thinned, evenly on the logarithmic axis."""
    import numpy as np

    curve = shown.reuse.curve
    chosen = np.arange(len(curve.capacities))
    if len(chosen) > _MOST_POINTS:
        chosen = np.unique(np.geomspace(1, len(chosen), _MOST_POINTS).astype(np.int64) - 1)
    sizes = curve.capacities[chosen].tolist()
    figure.add_scatter(
        x=sizes,
        y=numbers([100 * curve.at(size).ratio(shown.unit) for size in sizes]),
        mode="lines",
        line={**LINES[0], "shape": "hv"},
        name="LRU, every size",
    )
