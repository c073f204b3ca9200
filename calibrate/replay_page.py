"""Page of a replayed run: theirs and ours overlaid, over time and by request."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.html_page import figure_html, page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.calibrate.measured_run import LoadSeries, MeasuredRun
    from kvsim.calibrate.replay import Replay

THEIRS: Final = "#d1495b"
OURS: Final = "#1b6ca8"
_POINTS: Final = 2000


def replay_page(run: MeasuredRun, ours: Replay, notes: Sequence[str]) -> Iterator[str]:
    """Parts of one HTML file; ``notes`` are plain sentences under the title."""
    title = f"{run.name}: measured and replayed"
    body = [f"<h1>{escape(title)}</h1>\n"]
    body += [f'<p class="note">{escape(note)}</p>\n' for note in notes]
    body += ["<h2>Over time</h2>\n", figure_html(_over_time(run.series, ours.series), 1)]
    body += ["<h2>Requests, sorted</h2>\n", figure_html(_by_request(run, ours), 2)]
    return page(title, body)


def _over_time(theirs: LoadSeries | None, ours: LoadSeries) -> go.Figure:
    """KV use, running and waiting requests."""
    from plotly.subplots import make_subplots

    titles = ("KV blocks in use, %", "running requests", "waiting requests")
    figure = make_subplots(rows=3, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.08)
    for series, name, colour in ((theirs, "measured", THEIRS), (ours, "kvsim", OURS)):
        if series is None:
            continue
        for row, values in enumerate((series.kv_percent, series.running, series.waiting), 1):
            figure.add_scatter(
                x=_thin(series.time_s),
                y=_thin(values),
                name=name,
                line={"color": colour, "width": 1.5},
                legendgroup=name,
                showlegend=row == 1,
                row=row,
                col=1,
            )
    figure.update_xaxes(title_text="seconds since the first arrival", row=3, col=1)
    figure.update_layout(height=720, margin={"t": 40, "r": 10})
    return figure


def _by_request(run: MeasuredRun, ours: Replay) -> go.Figure:
    """Share of the requests below a latency: TTFT, TPOT, E2E."""
    from plotly.subplots import make_subplots

    titles = ("TTFT, s", "TPOT, s", "E2E, s")
    figure = make_subplots(cols=3, shared_yaxes=True, subplot_titles=titles)
    for place, (theirs, found) in enumerate(
        ((run.ttft_s(), ours.ttft_s), (run.tpot_s(), ours.tpot_s), (run.e2e_s(), ours.e2e_s)), 1
    ):
        for values, name, colour in ((theirs, "measured", THEIRS), (found, "kvsim", OURS)):
            known = np.sort(values[~np.isnan(values)])
            figure.add_scatter(
                x=_thin(known),
                y=_thin(np.arange(1, len(known) + 1) / len(known)),
                name=name,
                line={"color": colour, "width": 1.5},
                legendgroup=name,
                showlegend=place == 1,
                row=1,
                col=place,
            )
    figure.update_yaxes(title_text="share of requests", row=1, col=1)
    figure.update_layout(height=380, margin={"t": 40, "r": 10})
    return figure


def _thin(values: NDArray[np.float64]) -> list[float]:
    """At most ``_POINTS`` of the values, evenly."""
    stride = -(-len(values) // _POINTS)
    return [float(f"{value:.6g}") for value in values[:: max(stride, 1)]]
