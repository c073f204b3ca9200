"""Figures of latencies: distributions, and changes over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import SECONDS, in_seconds, laid_out, log_ticks, new_figure, numbers
from kvsim.sim.report.load_charts import time_chart, time_figure
from kvsim.sim.report.palette import LINES
from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.common.text import counted, seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.gaps import GapHistogram
    from kvsim.sim.report.run_page import RunView

_QUANTILES: Final = np.linspace(0.0, 1.0, 201)
_P99: Final = 198
_PERCENTILES: Final = (("p50", 50), ("p99", 99), ("max", 100))
_Curve = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def distribution_chart(view: RunView) -> Chart | str:
    """Share of finished requests with at most a latency; for ITL, the share of token gaps."""
    columns = view.columns
    finished = columns.finished()
    curves = {
        "TTFT": _curve(columns.ttft_s()[finished]),
        "TPOT": _curve(columns.tpot_s()[finished]),
        "ITL": _gap_curve(view.run.engine.recorder.gaps),
        "E2E": _curve(columns.e2e_s()[finished]),
    }
    figure = in_seconds(new_figure("latency", "requests or gaps (%)"), "x", "latency (s)")
    words: list[str] = []
    edges: list[float] = []
    for (name, (values_s, shares)), line in zip(curves.items(), LINES, strict=False):
        if len(values_s):
            figure.add_scatter(x=numbers(values_s), y=numbers(shares), name=name, line=line)
            edges += values_s[values_s > 0][[0, -1]].tolist() if values_s[-1] > 0 else []
            half, most = (seconds(float(values_s[place])) for place in (100, _P99))
            words.append(f"{name} p50 {half}, p99 {most}")
    if not words:
        return "Latency distributions: no request finished."
    if edges:  # something takes time
        figure.update_xaxes(**log_ticks(edges, seconds))
        figure.update_xaxes(title_text="latency (logarithmic)")
    else:
        figure.update_xaxes(SECONDS)
    return Chart(
        "Latency distributions",
        figure,
        "a steep curve means that all requests have about the same latency. A curve that becomes "
        "flat near the top means that a few requests are much slower than the others.",
        f"{'; '.join(words)}.",
    )


def latency_chart(view: RunView) -> Chart | str:
    """Percentiles of TTFT, TPOT and E2E by arrival time."""
    parts, columns = list(view.parts()), view.columns
    if not parts:
        return "Latencies over the run: no request finished."
    from plotly.subplots import make_subplots  # noqa: PLC0415 - only a report needs plotly

    latencies = {"TTFT": columns.ttft_s(), "TPOT": columns.tpot_s(), "E2E": columns.e2e_s()}
    figure = make_subplots(
        rows=len(latencies), shared_xaxes=True, vertical_spacing=0.07, subplot_titles=[*latencies]
    )
    middles = numbers([middle for middle, _ in parts])
    for row, (panel, values_s) in enumerate(latencies.items(), 1):
        table = np.array([_percentiles(values_s[part]) for _, part in parts])
        for (name, _), line, values in zip(_PERCENTILES, LINES, table.T, strict=False):
            figure.add_scatter(
                x=middles,
                y=numbers(values),
                name=name,
                meta={"panel": panel},
                legendgroup=name,
                showlegend=row == 1,
                mode="lines" if len(parts) > 1 else "markers",
                cliponaxis=len(parts) > 1,
                line=line,
                row=row,
                col=1,
            )
    in_seconds(laid_out(figure, "", "latency", height=620), "y", "latency (s)")
    figure.update_yaxes(SECONDS)
    figure.update_xaxes(title_text="arrival (s)", row=len(latencies))
    figure.update_xaxes(rangemode="nonnegative")
    worst_s, part = max((np.nanmax(columns.ttft_s()[part]), middle) for middle, part in parts)
    return Chart(
        "Latencies over the run",
        figure,
        "flat curves mean a stable load. If p99 rises and p50 does not, only some requests wait.",
        f"The requests are in {counted(len(parts), 'group')} by arrival time. The largest TTFT is "
        f"{seconds(float(worst_s))}, of a request that arrived around {seconds(part)}.",
    )


def gap_chart(view: RunView) -> Chart | str:
    """Percentiles of the gaps between tokens, by the time of the later token."""
    gaps = view.gaps()
    ends = gaps.num > 0
    if not ends.any():
        return "Token gaps over the run: no request got a second token."
    figure = in_seconds(time_figure(view, "gap"), "y", "gap (s)")
    curves_s = [gaps.quantiles_ps(q / 100) / PS_PER_S for _, q in _PERCENTILES[:-1]]
    curves_s.append(np.where(ends, gaps.max_ps / PS_PER_S, np.nan))
    for (name, _), line, values_s in zip(_PERCENTILES, LINES, curves_s, strict=False):
        figure.add_scatter(
            x=view.stretch_middle_s,
            y=numbers(values_s),
            name=name,
            mode="lines+markers",
            line=line,
            marker={"size": 4},
        )
    positive = np.concatenate(curves_s)
    positive = positive[positive > 0]
    if len(positive):
        ticks = log_ticks(positive.tolist(), seconds)
        figure.update_yaxes(**ticks, rangemode="normal", title_text="gap (logarithmic)")
    else:
        figure.update_yaxes(SECONDS)
    longest = int(gaps.max_ps.argmax())
    tails_s = curves_s[1][ends]
    return time_chart(
        view,
        "Token gaps over the run (ITL)",
        figure,
        "a peak is a time at which token streams paused. A peak of the maximum alone concerns a "
        "few requests, a peak of p99 concerns many, and a peak of p50 concerns most.",
        f"The run is cut into {counted(len(ends), 'stretch', 'stretches')}; a gap counts at its "
        f"end. p99 is between {seconds(float(tails_s.min()))} and {seconds(float(tails_s.max()))}. "
        f"The longest gap is {seconds(gaps.max_ps[longest] / PS_PER_S)} and ends around "
        f"{seconds(view.stretch_middle_s[longest])}.",
    )


def _percentiles(values_s: NDArray[np.float64]) -> list[float]:
    defined = values_s[~np.isnan(values_s)]
    if not len(defined):
        return [np.nan] * len(_PERCENTILES)
    return [float(value) for value in np.percentile(defined, [q for _, q in _PERCENTILES])]


def _curve(values_s: NDArray[np.float64]) -> _Curve:
    defined = values_s[~np.isnan(values_s)]
    if not len(defined):
        return np.empty(0), np.empty(0)
    return np.quantile(defined, _QUANTILES), 100 * _QUANTILES


def _gap_curve(gaps: GapHistogram) -> _Curve:
    if not gaps.num:
        return np.empty(0), np.empty(0)
    values_s = np.array([gaps.quantile_ps(float(q)) for q in _QUANTILES]) / PS_PER_S
    return values_s, 100 * _QUANTILES
