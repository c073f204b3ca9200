"""The frame of all pages: one HTML file that needs no network, with plotly's code inside once.

No script runs but the two that the page was written with, and nothing is fetched: a content
security policy says so to the browser.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kvsim.sim.report.chart import Chart, chart_html, unbroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Block: TypeAlias = Chart | str
    """A chart, or HTML in which all text from outside is escaped."""

_PLOTLY: Final = "plotly-basic.min.js"
"""plotly.js 4.1.1 with lines and bars alone: npm pack plotly.js-basic-dist-min.

The package plotly brings all of it, four times the size: over a second to read where a browser has
just been started.
"""


class Head(NamedTuple):
    """Top of a page, plain text.

    ``facts``: labels and what they say: scenario, trace, cost, fidelity. ``lead``: the one sentence
    to read. ``alarm``: what makes all numbers doubtful, such as a run that was stopped.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    alarm: str = ""


def page(head: Head, blocks: Iterable[Block], *, drawn_by: str | None = None) -> Iterator[str]:
    """Parts of a page, in order; the same blocks give the same text.

    ``drawn_by``: a script of its own for pages without charts, which then need no plotly. Halves of
    characters, which names of files and JSON can hold and UTF-8 cannot, become question marks.
    """
    for part in _parts(head, blocks, drawn_by):
        yield part.encode("utf-8", "replace").decode("utf-8")


def _parts(head: Head, blocks: Iterable[Block], drawn_by: str | None) -> Iterator[str]:
    drawing, script = drawn_by or _asset(_PLOTLY), _asset("page.js")
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(drawing, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(head.title)}</title>\n<style>\n{_asset('style.css')}</style>\n"
        f"</head>\n<body>\n{_head_html(head)}"
    )
    number = 0
    for block in blocks:
        if isinstance(block, Chart):
            number += 1
            yield chart_html(block, number)
        else:
            yield block
    yield f"</main>\n<script>{drawing}</script>\n<script>{script}</script>\n</body>\n</html>\n"


def bullets(title: str, sentences: Iterable[str]) -> str:
    """A heading with a list of sentences below, plain text; nothing where there are none."""
    items = "".join(f"<li>{escape(unbroken(sentence))}</li>\n" for sentence in sentences)
    return f"<h2>{escape(title)}</h2>\n<ul>\n{items}</ul>\n" if items else ""


def _head_html(head: Head) -> str:
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>\n" for name, text in head.facts
    )
    lines = [f"<h1>{escape(head.title)}</h1>"]
    if head.alarm:
        lines.append(f'<p class="alarm">{escape(head.alarm)}</p>')
    if head.lead:
        lines.append(f'<p class="lead">{escape(head.lead)}</p>')
    if facts:
        lines.append(f'<dl class="facts">\n{facts}</dl>')
    return (
        '<a class="skip" href="#main">Skip to the results</a>\n'
        '<header class="bar"><span>kvsim</span>'
        '<button type="button" id="theme">Dark colours</button></header>\n<main id="main">\n'
        "<noscript><p>The charts need JavaScript; their numbers stand below each in words.</p>"
        "</noscript>\n" + "\n".join(lines) + "\n"
    )


def _policy(*scripts: str) -> str:
    """What a browser may do on the page: run these scripts, style, show pictures made here."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _asset(name: str) -> str:
    return resources.files("kvsim.sim.report").joinpath(name).read_text(encoding="utf-8")
