"""One plain page about a run: KV memory over time, queue, latency distributions.

The page is a single file that needs no network: plotly's code is inside, once. Text that came
from files (trace and model names) appears only in escaped HTML, never inside a figure.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.html_page import STATE_LABELS, figure_html, page
from kvsim.sim.memory_shares import STATES
from kvsim.sim.request_columns import PS_PER_S, RequestColumns
from kvsim.sim.run_tables import series_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.sim.gap_histogram import GapHistogram
    from kvsim.sim.run import Run

_LATENCIES: Final = (
    ("TTFT", "#1b6ca8"),
    ("TPOT", "#d1495b"),
    ("ITL", "#edae49"),
    ("E2E", "#3c7d5a"),
)
_QUANTILES: Final = np.linspace(0.0, 1.0, 201)
_GIB: Final = 2**30


def report_html(run: Run) -> Iterator[str]:
    """Parts of the page's HTML, in order; the same run gives the same text."""
    return page(f"kvsim: {run.trace.name}", _body(run))


def _body(run: Run) -> Iterator[str]:
    yield f"{_head(run)}\n"
    for number, (title, figure) in enumerate(
        (
            ("KV memory by state", memory_figure),
            ("Running and waiting requests", queue_figure),
            ("Latency distributions", latency_figure),
        ),
        start=1,
    ):
        yield f"<h2>{title}</h2>\n{figure_html(figure(run), number)}\n"


def memory_figure(run: Run) -> go.Figure:
    """Mean KV bytes by state in each time window, stacked up to the whole pool."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    table = series_table(run.engine.recorder, run.setup.pool)
    middle_s = table["start_s"] + table["seconds"] / 2
    figure = go.Figure()
    for state in STATES:
        label, colour = STATE_LABELS[state]
        figure.add_scatter(
            x=_numbers(middle_s),
            y=_numbers(table[f"{state}_bytes"] / _GIB),
            name=label,
            stackgroup="pool",
            mode="lines",
            line={"width": 0, "color": colour},
            fillcolor=colour,
        )
    return _laid_out(figure, "time (s)", "KV memory (GiB)")


def queue_figure(run: Run) -> go.Figure:
    """Mean numbers of running and waiting requests in each time window."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    table = series_table(run.engine.recorder, run.setup.pool)
    middle_s = _numbers(table["start_s"] + table["seconds"] / 2)
    figure = go.Figure()
    for name, colour in (("running", "#1b6ca8"), ("waiting", "#d1495b")):
        figure.add_scatter(x=middle_s, y=_numbers(table[name]), name=name, line={"color": colour})
    return _laid_out(figure, "time (s)", "requests")


def latency_figure(run: Run) -> go.Figure:
    """Share of finished requests (ITL: of token gaps) at or below a latency."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    columns = RequestColumns.of(run.trace, run.engine.recorder)
    finished = columns.finished()
    curves = {
        "TTFT": _curve(columns.ttft_s()[finished]),
        "TPOT": _curve(columns.tpot_s()[finished]),
        "ITL": _gap_curve(run.engine.recorder.gaps),
        "E2E": _curve(columns.e2e_s()[finished]),
    }
    figure = go.Figure()
    for name, colour in _LATENCIES:
        values_s, shares = curves[name]
        figure.add_scatter(
            x=_numbers(values_s), y=_numbers(shares), name=name, line={"color": colour}
        )
    _laid_out(figure, "latency (s, logarithmic)", "at or below (%)")
    figure.update_xaxes(type="log", exponentformat="power", minexponent=2)
    return figure


def _head(run: Run) -> str:
    scenario = run.scenario
    setting = (
        f"{scenario.preset or 'own scenario'}, {scenario.model.name}, {scenario.hardware.name}"
    )
    requests, verdict = run.summary["requests"], run.summary["verdict"]
    assert isinstance(requests, dict), "summary['requests'] is a dict"
    assert isinstance(verdict, dict), "summary['verdict'] is a dict"
    names = ["finished", "refused", "unfinished"]
    names += [name for name in ("aborted", "not_sent") if requests[name]]
    counts = ", ".join(f"{name.replace('_', ' ')} {requests[name]:,}" for name in names)
    partial = '<p class="partial">Partial: the run was stopped.</p>\n' if run.engine.partial else ""
    return (
        f"<h1>{escape(run.trace.name)}</h1>\n"
        f'<p class="note">{escape(setting)}; step cost: {escape(run.setup.cost.name)}</p>\n'
        f'<p class="note">{len(run.trace):,} requests: {counts}</p>\n{partial}'
        f"<p><strong>{escape(str(verdict['text']))}</strong></p>"
    )


def _curve(values_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    defined = values_s[~np.isnan(values_s)]
    if not len(defined):
        return np.empty(0), np.empty(0)
    return np.quantile(defined, _QUANTILES), 100 * _QUANTILES


def _gap_curve(gaps: GapHistogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not gaps.num:
        return np.empty(0), np.empty(0)
    values_s = np.array([gaps.quantile_ps(float(q)) for q in _QUANTILES]) / PS_PER_S
    return values_s, 100 * _QUANTILES


def _numbers(values: NDArray[np.float64] | NDArray[np.int64]) -> list[float]:
    """Five significant digits: what a screen shows, and a tenth of the file."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def _laid_out(figure: go.Figure, x_title: str, y_title: str) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=380,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.2, "yanchor": "top"},
        hovermode="x unified",
    )
    figure.update_xaxes(title_text=x_title)
    figure.update_yaxes(title_text=y_title, rangemode="tozero")
    return figure
