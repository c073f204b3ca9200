"""Page of a replayed run: theirs and ours overlaid, over time and by request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import laid_out, new_figure, numbers, thinned
from kvsim.sim.report.page import Head, bullets, page
from kvsim.sim.report.palette import OURS, THEIRS
from kvsim.sim.report.tables import table_html
from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.calibrate.engine_logs.measured_run import LoadSeries, MeasuredRun
    from kvsim.calibrate.validate.measured_replay import Replay
    from kvsim.sim.documents.replay import ReplayFigure
    from kvsim.sim.report.page import Block

_HEADS: Final = ("measured", "kvsim", "error")
_KINDS: Final = (("measured", THEIRS, "solid"), ("kvsim", OURS, "dash"))


def replay_page(
    run: MeasuredRun, ours: Replay, rows: Sequence[ReplayFigure], notes: Sequence[str]
) -> Iterator[str]:
    """Parts of one HTML file; ``notes`` are sentences, some of them ``label: text``."""
    parts = [note.partition(": ") for note in notes]
    facts = tuple((name, text) for name, colon, text in parts if colon)
    others = [name for name, colon, _ in parts if not colon]
    head = Head(f"{run.name}: measured and replayed", facts)
    return page(head, _blocks(run, ours, rows, others))


def _blocks(
    run: MeasuredRun, ours: Replay, rows: Sequence[ReplayFigure], notes: Sequence[str]
) -> Iterator[Block]:
    yield _errors(rows)
    yield _latency_chart(run, ours)
    yield from _load_charts(run.series, ours.series)
    yield bullets("Notes", notes)


def _errors(rows: Sequence[ReplayFigure]) -> str:
    body = [
        (f"{row.metric} {row.statistic}", seconds(row.theirs_s), seconds(row.ours_s), _percent(row))
        for row in rows
    ]
    return (
        '<h2>Ours beside theirs</h2>\n<p class="see"><b>What to see:</b> the signed error of each '
        "latency.</p>\n" + table_html("Ours beside theirs", ["", *_HEADS], body)
    )


def _percent(row: ReplayFigure) -> str:
    return "-" if row.error is None else f"{100 * row.error:+.1f} %"


def _load_charts(theirs: LoadSeries | None, ours: LoadSeries) -> Iterator[Chart]:
    """KV use, running and waiting requests."""
    for name, title, unit, see in (
        ("kv_percent", "KV blocks in use", "% of the pool", "the pool fills at the same times"),
        ("running", "Running requests", "requests", "max_num_seqs is the same in both engines"),
        ("waiting", "Waiting requests", "requests", "the queues grow and drain together"),
    ):
        figure = new_figure("time since the first arrival (s)", unit, height=320)
        words = []
        seen = f"whether {see}" if theirs is not None else "the replay alone: the log has no load"
        for series, kind in zip((theirs, ours), _KINDS, strict=True):
            if series is not None:
                values = getattr(series, name)
                _add_curve(figure, *thinned(series.time_s, values), kind)
                most = number(float(np.max(values, initial=0)))
                words.append(f"{kind[0]} {most} {unit} at most")
        yield Chart(title, figure, f"{seen}.", f"{', '.join(words)}.")


def _latency_chart(run: MeasuredRun, ours: Replay) -> Chart:
    """Share of the requests at or below a latency: TTFT, TPOT, E2E."""
    from plotly.subplots import make_subplots

    pairs = {
        "TTFT": (run.ttft_s(), ours.ttft_s),
        "TPOT": (run.tpot_s(), ours.tpot_s),
        "E2E": (run.e2e_s(), ours.e2e_s),
    }
    figure = make_subplots(cols=3, shared_yaxes=True, subplot_titles=[*pairs])
    for place, (panel, both) in enumerate(pairs.items(), 1):
        for values, kind in zip(both, _KINDS, strict=True):
            known = np.sort(values[~np.isnan(values)])
            shares = 100 * np.arange(1, len(known) + 1) / max(len(known), 1)
            _add_curve(figure, *thinned(known, shares), kind, panel=panel, place=place)
    laid_out(figure, "latency (s)", "", height=380)
    figure.update_yaxes(title_text="requests at or below (%)", col=1)
    figure.update_layout(meta={"panel_px": 260})
    words = (
        f"{panel} median {seconds(float(np.nanmedian(theirs)))} measured, "
        f"{seconds(float(np.nanmedian(found)))} replayed"
        for panel, (theirs, found) in pairs.items()
        if not (np.isnan(theirs).all() or np.isnan(found).all())
    )
    return Chart(
        "Latencies of the requests",
        figure,
        "the closer the two curves, the better the replay; a gap at the top is the tail.",
        f"{'; '.join(words)}.",
    )


def _add_curve(
    figure: go.Figure,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    kind: tuple[str, str, str],
    *,
    panel: str | None = None,
    place: int | None = None,
) -> None:
    """A curve of theirs or ours; with ``panel``, in its panel."""
    name, colour, dash = kind
    where = {} if place is None else {"row": 1, "col": place}
    figure.add_scatter(
        x=numbers(x),
        y=numbers(y),
        name=name,
        meta={"panel": panel},
        mode="lines",
        line={"color": colour, "width": 1.5, "dash": dash},
        legendgroup=name,
        showlegend=place in (None, 1),
        **where,
    )
