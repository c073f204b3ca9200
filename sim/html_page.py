"""The frame of a report: one HTML file that needs no network, with plotly's code inside once."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import plotly.graph_objects as go

STATE_LABELS: Final = {
    "token": ("token", "#1b6ca8"),
    "reserved": ("reserved (will fill)", "#6fb1de"),
    "internal": ("internal (never fills)", "#d1495b"),
    "external": ("external (holes, unusable)", "#8d6a9f"),
    "cached": ("cached (reusable)", "#edae49"),
    "free": ("free", "#e3e6ea"),
}
"""Words and colour of each state of KV memory."""
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1000px;
       padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 0; }
p.note { color: #555; margin: 0.2rem 0; }
p.partial { color: #b00020; font-weight: 600; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: 0.6rem 0; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #e3e6ea; }
th { color: #555; font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
td.best { background: #e2f1e7; font-weight: 600; }
"""


def page(title: str, body: Iterable[str]) -> Iterator[str]:
    """Parts of a page, in order; ``title`` is plain text, ``body`` is HTML."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - only a report needs plotly

    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n<script>"
    )
    yield get_plotlyjs()
    yield "</script>\n</head>\n<body>\n"
    yield from body
    yield "</body>\n</html>\n"


def figure_html(figure: go.Figure, number: int) -> str:
    """A figure without plotly's code; ``number`` gives it a fixed id."""
    html: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{number}",
        config={"displaylogo": False, "responsive": True},
    )
    return html
