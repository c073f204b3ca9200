"""What came of a comparison, on the local page."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from kvsim.cli.ui.form import in_words_of_the_form
from kvsim.sim.comparison.lines import notes_of, table_lines
from kvsim.sim.folders.place import BLOCK_MAP, REPORT
from kvsim.sim.metrics.shares import STATES, grouped
from kvsim.sim.report.palette import STATE_LABELS
from kvsim.traces.common.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import plotly.graph_objects as go

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.documents.kv_memory import Primitives

_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")
_HEAD_PX, _MAP_PX = 480, {1: 820, 2: 720, 3: 600}
_PHONE_HEAD_PX, _PHONE_MAP_PX, _PHONE_PX = 800, 580, 480
"""Of the page of block maps: what is around the maps, and a map, by how many are in a row."""
_ACROSS: Final = {1180: 2, 820: 1}
"""Widest windows, px, that have room for no more maps in a row; narrower ones last."""
_BAR_PX, _AXIS_PX = 44, 40
_LAST_TICK_PX: Final = 24
"""Half of the axis' last number, which stands at the bars' end."""
_ROOM_FOR_NUMBER: Final = 8
"""Percent of the pool below which a part of a bar has no number in it."""


class Shown(NamedTuple):
    """A comparison, its folder, the command that does the same, and why the model is too large."""

    result: Comparison
    folder: Path
    command: str
    too_large: str


def literal(text: str) -> str:
    """Text from outside as Markdown that shows it as it is: nothing is fetched or styled."""
    return _PUNCTUATION.sub(r"\\\g<0>", printable(text))


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Colours and what they say, as HTML whose letters are the page's and break to its width."""
    entry = "margin-right:1.2em;white-space:nowrap"
    square = "display:inline-block;width:.7em;height:.7em;margin-right:.4em;background:"
    spans = [
        f'<span style="{entry}"><span style="{square}{colour}"></span>{label}</span>'
        for colour, label in entries
    ]
    return f'<p style="font-size:.85rem;line-height:1.7">{" ".join(spans)}</p>'


def show(shown: Shown) -> None:
    """Memory by state, then what users see and how it is judged, then where it lies."""
    rows, folder = shown.result.rows, shown.folder
    if shown.too_large:
        sentence = in_words_of_the_form(shown.too_large)
        st.warning(literal(f"Shown as if the weights lay elsewhere: {sentence}"))
    waiting = [row.kv_bytes_share.while_waiting for row in rows]
    when = "while requests wait" if any(waiting) else "all time"
    shares = waiting if any(waiting) else [row.kv_bytes_share.all_time for row in rows]
    st.subheader(f"KV memory by state, {when}")
    st.caption("Percent of the pool. The longer the part of token, the more memory does its work.")
    st.plotly_chart(states_bar(rows, shares), key="states", config={"displayModeBar": False})
    st.html(legend([(colour, label) for label, colour in STATE_LABELS.values()]))
    st.subheader("What users see")
    lines = [line for line in table_lines(rows) if not line.section]
    lines.sort(key=lambda line: line.label != "verdict")
    cells = [[f"{text}{' ★' * best}" for text, best in line.cells()] for line in lines]
    columns = dict(zip([row.name for row in rows], zip(*cells, strict=True), strict=True))
    right = st.column_config.TextColumn(alignment="right")
    st.dataframe(
        {"": [line.label for line in lines]} | columns,
        hide_index=True,
        height="content",
        column_config=dict.fromkeys(columns, right),
    )
    st.caption(
        "★ is the best of its line. TTFT: until the first token, TPOT: between tokens. Where a "
        "system is overloaded, latencies tell the length of the trace."
    )
    _show_sentences("Verdicts", [f"{row.name}: {row.verdict.text}" for row in rows])
    notes = [in_words_of_the_form(note) for note in notes_of(shown.result)]
    _show_sentences("Notes", notes)
    st.link_button("Open the whole report", f"/runs/{folder.name}/{REPORT}")
    if (folder / BLOCK_MAP).exists():
        st.subheader("The pool, block by block")
        _show_maps(f"/runs/{folder.name}/{BLOCK_MAP}", len(rows))
    st.caption("The same from a terminal:")
    st.code(shown.command, language="sh", wrap_lines=True)


def _show_sentences(title: str, sentences: Sequence[str]) -> None:
    """Show them below each other, if there are any."""
    if sentences:
        st.markdown("\n".join((f"**{title}**\n", *(f"- {literal(text)}" for text in sentences))))


def states_bar(rows: Sequence[Row], shares: Sequence[Primitives | None]) -> go.Figure:
    """One bar a row, in parts by state: percent of the pool, of ``shares``."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names, by_state = [escape(row.name) for row in rows], grouped(shares)
    for state in STATES:
        label, colour = STATE_LABELS[state]
        percent = [None if share is None else 100 * share[state] for share in by_state]
        figure.add_bar(
            x=percent,
            y=names,
            orientation="h",
            marker_color=colour,
            text=[f"{x:.1f}" if x is not None and x >= _ROOM_FOR_NUMBER else "" for x in percent],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            hovertemplate=f"%{{y}}: {label} %{{x:.1f}} %<extra></extra>",
        )
    return figure.update_layout(
        barmode="stack",
        height=_AXIS_PX + _BAR_PX * len(rows),
        showlegend=False,
        margin={"l": 0, "r": _LAST_TICK_PX, "t": 0, "b": 0},
        xaxis={"range": [0, 100], "dtick": 25, "ticksuffix": " %", "fixedrange": True},
        yaxis={"autorange": "reversed", "automargin": True, "fixedrange": True},
    )


def _show_maps(address: str, num_maps: int) -> None:
    """Show the page of block maps, as high as it is: three in a row, fewer in narrow windows."""
    heights = {
        widest: _HEAD_PX + _MAP_PX[across] * -(-num_maps // across)
        for widest, across in _ACROSS.items()
        if across < num_maps
    }
    heights[_PHONE_PX] = _PHONE_HEAD_PX + _PHONE_MAP_PX * num_maps
    rules = [
        f"@media (max-width: {widest}px) {{ .st-key-maps :has(iframe), .st-key-maps iframe "
        f"{{ height: {height}px !important; }} }}"
        for widest, height in heights.items()
    ]
    st.html(f"<style>{' '.join(rules)}</style>")
    across = min(num_maps, max(_MAP_PX))
    with st.container(key="maps"):
        st.iframe(address, height=_HEAD_PX + _MAP_PX[across] * -(-num_maps // across))
