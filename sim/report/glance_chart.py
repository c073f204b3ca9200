"""The first picture of a run: what the KV memory holds, and what requests wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.metrics.shares import STATES
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import laid_out
from kvsim.sim.report.palette import CAUSE_LABELS, STATE_LABELS, on_colour
from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import plotly.graph_objects as go

    from kvsim.sim.documents.kv_memory import States
    from kvsim.sim.documents.summary import Summary
    from kvsim.sim.report.run_page import RunView

_NUMBER_FITS: Final = 4.0
"""Percent of a bar from which its number has room inside it."""
_WORD_FITS: Final = 3.0
"""Percent of a bar that a letter of a label needs."""
_HEIGHT_PX: Final = 330
_ALMOST_NONE: Final = 0.05
"""Percent that is printed as 0.0."""


def glance_chart(view: RunView) -> Chart | str:
    """KV memory by state, and waiting time by cause, as stacked bars."""
    summary = view.run.summary
    if not view.series["seconds"].any():
        return "What binds: no time passed."
    return Chart(
        "What binds, and what the KV memory holds",
        _figure(summary),
        "the dark parts of the upper bars are memory that requests hold. The pale parts are cached "
        "and free blocks, which the allocator can give to requests at once. The longest part of "
        "the lowest bar is what requests wait for most.",
        waiting_text(summary),
    )


def _figure(summary: Summary) -> go.Figure:
    from plotly.subplots import make_subplots  # noqa: PLC0415 - only a report needs plotly

    held = _memory_bars(summary)
    causes = {name: 100 * share for name, share in _waiting_shares(summary).items()}
    rows = 2 if causes else 1
    figure = make_subplots(
        rows=rows,
        cols=1,
        row_heights=[len(held), 1][:rows],
        vertical_spacing=0.24,
        subplot_titles=["KV memory by state", "Waiting time by cause"][:rows],
    )
    for state in STATES:
        label, colour = STATE_LABELS[state]
        shares = {name: getattr(states, state) for name, states in held.items()}
        if any(shares.values()):
            _add_part(figure, 1, label, colour, shares)
    for cause, percent in causes.items():
        label, colour = CAUSE_LABELS[cause]
        _add_part(figure, 2, label, colour, {"all requests": percent})
    height = _HEIGHT_PX - (0 if causes else 90) - 40 * (2 - len(held))
    laid_out(figure, "", "", height=height).update_layout(
        barmode="stack", bargap=0.25, hovermode="closest", meta={"x": "percent"}
    )
    figure.update_layout(legend_traceorder="normal", margin_b=70)
    figure.update_annotations(font_size=13, x=0, xanchor="left")
    ticks = [0, 25, 50, 75, 100]
    figure.update_xaxes(range=[0, 100], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks])
    figure.update_xaxes(showgrid=False, zeroline=False)
    return figure.update_yaxes(autorange="reversed")


def _add_part(
    figure: go.Figure, row: int, label: str, colour: str, percent: Mapping[str, float]
) -> None:
    """One state or cause in all bars of a panel, with its number inside where there is room."""
    texts = []
    for value in percent.values():
        words = f"{label.partition(' (')[0]} {value:.1f} %"
        fits = value >= _WORD_FITS * len(words) ** 0.8
        texts.append(words if fits else f"{value:.1f}" if value >= _NUMBER_FITS else "")
    figure.add_bar(
        x=[round(value, 2) for value in percent.values()],
        y=list(percent),
        name=label,
        orientation="h",
        marker={"color": colour, "line": {"width": 0}},
        text=texts,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        insidetextfont={"color": on_colour(colour)},
        hovertemplate=f"{label}: %{{x:.2f}} %<extra>%{{y}}</extra>",
        showlegend=row == 1 and max(percent.values()) >= _ALMOST_NONE,
        row=row,
        col=1,
    )


def _memory_bars(summary: Summary) -> dict[str, States]:
    """States in percent over the whole run and, where requests waited, while they waited."""
    memory = summary.memory
    bars = {"whole run": memory.all_time.states_percent}
    if memory.while_waiting.seconds:
        bars["while requests<br>wait"] = memory.while_waiting.states_percent
    return bars


def _waiting_shares(summary: Summary) -> dict[str, float]:
    """Share of the waiting time by cause; empty where no request waited."""
    waited_s = summary.waited_s.to_dict()
    total_s = sum(waited_s.values())
    return {name: value / total_s for name, value in waited_s.items() if value}


def memory_text(view: RunView) -> str:
    """How much of the KV memory requests hold, and what else it holds."""
    series = view.series
    if not series["seconds"].any():
        return ""
    held = series["token_bytes"] + series["reserved_bytes"] + series["internal_bytes"]
    percent = 100 * held / view.run.setup.pool.pool_bytes
    mean = float(percent @ series["seconds"] / series["seconds"].sum())
    states = view.run.summary.memory.all_time.states_percent
    empty = states.reserved + states.internal
    lost = (
        f"; empty slots that requests reserve take {empty:.1f} %" if empty >= _ALMOST_NONE else ""
    )
    cached = (
        f" Cached blocks take {states.cached:.1f} %; the allocator evicts them when requests need "
        "memory."
        if states.cached >= _ALMOST_NONE
        else ""
    )
    return (
        f"Requests hold {mean:.1f} % of the KV memory on average, {percent.max():.1f} % "
        f"in the fullest time window. Tokens take {states.token:.1f} %{lost}.{cached}"
    )


def waiting_text(summary: Summary) -> str:
    """What requests wait for, and how long."""
    shares = _waiting_shares(summary)
    if not shares:
        return "No request waits."
    words = [
        f"{CAUSE_LABELS[name][0]} {100 * share:.1f} %"
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if 100 * share >= _ALMOST_NONE
    ]
    queue_s = summary.latency.queue_s
    mean = f"A finished request waits {seconds(queue_s.mean)} on average. " if queue_s.num else ""
    return f"{mean}Of all waiting time: {', '.join(words)}."


def binding_text(summary: Summary) -> str:
    """What limits the run; the verdict of an overloaded run says so already."""
    if summary.verdict.binds is not None:
        return ""
    waited_s = summary.waited_s.to_dict()
    step_s, total_s = waited_s.pop("step"), sum(waited_s.values())
    if not step_s and not total_s:
        return "Nothing in the server binds: no request waits."
    if not total_s:
        return "Nothing in the server binds: requests wait only for the step in progress."
    most = max(waited_s, key=lambda name: waited_s[name])
    percent = number(100 * waited_s[most] / (step_s + total_s), 3)
    return (
        f"Apart from the step in progress, requests wait most for {CAUSE_LABELS[most][0]} "
        f"({percent} % of the waiting time)."
    )
