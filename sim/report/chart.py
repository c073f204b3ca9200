"""A chart of a page: a figure, its title, what to look for, and its numbers in words."""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import plotly.graph_objects as go

_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[mu]?s|[KMGT]i?B|GB/s|requests?/s|tokens?/s)(?![\w/]))")
"""The space between a number and its unit."""


class Chart(NamedTuple):
    """``title``, ``see`` and ``summary`` are plain text.

    ``see``: what to look for. ``summary``: the figure's numbers in words, for readers who cannot
    see the figure. Names inside the figure must be escaped, because plotly reads some HTML. A phone
    shows panels one below the other; ``layout.meta["panel_px"]`` is the height of each panel there.
    """

    title: str
    figure: go.Figure
    see: str
    summary: str


def chart_html(chart: Chart, number: int) -> str:
    """Return a section of a page; ``number`` makes its ids."""
    name, caption = f"chart-{number}", escape(unbroken(chart.summary))
    plot = (
        f'<div class="plot" id="{name}" role="img" '
        f'aria-label="{escape(f"{chart.title}. {chart.summary}")}"></div>'
    )
    return (
        f'<section aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{escape(chart.title)}</h2>\n'
        f'<p class="see"><b>What to see:</b> {escape(chart.see)}</p>\n'
        f'<figure>{plot}\n<div class="foot"><figcaption>{caption}</figcaption>\n'
        f'<button type="button" data-chart="{name}" data-file="{_file_name(chart.title)}.csv" '
        f'aria-label="Download the data of: {escape(chart.title)}">Data (CSV)</button></div>'
        f'</figure>\n<script type="application/json" id="{name}-data">{_data(chart.figure)}'
        "</script>\n</section>\n"
    )


def unbroken(text: str) -> str:
    """Return the text with non-breaking spaces between numbers and units."""
    return _UNIT.sub("\u00a0", text)


def scrollable(html: str, label: str) -> str:
    """Return a box that scrolls on its own, also by keyboard."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">{html}</div>'


def _data(figure: go.Figure) -> str:
    """Return traces and layout as JSON without HTML characters; the page has its own template."""
    document = figure.to_plotly_json()
    kinds = {trace["type"] for trace in document["data"]}
    assert kinds <= {"scatter", "bar"}, "the page's plotly draws only lines and bars"
    layout = {name: value for name, value in document["layout"].items() if name != "template"}
    text = json.dumps({"data": document["data"], "layout": layout}, separators=(",", ":"))
    return text.translate(_IN_SCRIPT)


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
