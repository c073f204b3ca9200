"""The reuse curve as one HTML file that opens without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.cli.reuse_output import Shown

_MOST_POINTS: Final = 2_000


def write_plot(shown: Shown, path: Path) -> None:
    """Write hit ratio against capacity; long curves are thinned to some 2,000 steps."""
    import numpy as np
    import plotly.graph_objects as go

    curve, unit = shown.reuse.curve, shown.unit
    chosen = np.arange(len(curve.capacities))
    if len(chosen) > _MOST_POINTS:
        chosen = np.unique(np.geomspace(1, len(chosen), _MOST_POINTS).astype(np.int64) - 1)
    sizes = curve.capacities[chosen].tolist()
    figure = go.Figure()
    figure.add_scatter(
        x=sizes,
        y=[100 * curve.at(size).ratio(unit) for size in sizes],
        mode="lines",
        line={"shape": "hv"},
        name="LRU, every size",
    )
    for policy, replay in shown.replays.items():
        figure.add_scatter(
            x=list(shown.capacities),
            y=[100 * hits.ratio(unit) for hits in replay],
            mode="lines+markers",
            line={"dash": "dot"},
            name=policy,
        )
    ratio = curve.at(curve.largest_useful).ratio(unit)
    figure.add_hline(
        y=100 * ratio, line_dash="dash", annotation_text=f"infinite cache {100 * ratio:.2f} %"
    )
    tokens = shown.reuse.accesses.block_tokens
    figure.update_layout(
        title=f"{shown.trace.name}: prefix reuse ({shown.reuse.definition})",
        xaxis={"type": "log", "title": f"capacity (blocks of {tokens} tokens)"},
        yaxis={"title": f"hit ratio (% of {unit})", "rangemode": "tozero"},
        template="plotly_white",
    )
    figure.write_html(path, include_plotlyjs=True, div_id="reuse")
