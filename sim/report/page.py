"""The frame of all pages: one HTML file that needs no network and contains plotly's code once.

A content security policy lets the browser run only the two scripts of the page and load nothing.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib import resources
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kvsim.sim.report.chart import Chart, chart_html, unbroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Block: TypeAlias = Chart | str
    """A chart, or HTML. All text in the HTML that comes from outside is escaped."""

_PLOTLY: Final = "plotly-basic.min.js"
"""plotly.js 4.1.1 with lines and bars only: npm pack plotly.js-basic-dist-min.

The Python package plotly contains the whole library. It is four times as large, and a browser that
was just started needs more than a second to read it.
"""


class Head(NamedTuple):
    """Top of a page, in the order in which it is shown. All text is plain text.

    ``alarm``: why all numbers are doubtful, for example because the run was stopped. ``lead``: the
    most important sentence. ``more``: the sentences after it. ``first``: the first chart of the
    page. ``facts``: labels and texts on the scenario, the trace, the cost and the fidelity.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    alarm: str = ""
    more: str = ""
    first: Chart | None = None


def page(head: Head, blocks: Iterable[Block], *, drawn_by: str | None = None) -> Iterator[str]:
    """Return the parts of a page in order; the same blocks give the same text.

    ``drawn_by``: the script of a page without charts; such a page needs no plotly. Names of files
    and JSON can contain surrogates, which UTF-8 cannot encode. They become question marks.
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
    first = () if head.first is None else (head.first,)
    for block in chain(first, (_facts_html(head.facts),), blocks):
        if isinstance(block, Chart):
            number += 1
            yield chart_html(block, number)
        else:
            yield block
    yield f"</main>\n<script>{drawing}</script>\n<script>{script}</script>\n</body>\n</html>\n"


def bullets(title: str, sentences: Iterable[str]) -> str:
    """Return a heading and a list of plain sentences, or nothing where there are no sentences."""
    items = "".join(f"<li>{escape(unbroken(sentence))}</li>\n" for sentence in sentences)
    return f"<h2>{escape(title)}</h2>\n<ul>\n{items}</ul>\n" if items else ""


def _head_html(head: Head) -> str:
    lines = [f"<h1>{escape(head.title)}</h1>"]
    if head.alarm:
        lines.append(f'<p class="alarm">{escape(head.alarm)}</p>')
    if head.lead:
        lines.append(f'<p class="lead">{escape(unbroken(head.lead))}</p>')
    if head.more:
        lines.append(f"<p>{escape(unbroken(head.more))}</p>")
    return (
        '<a class="skip" href="#main">Skip to the results</a>\n'
        '<header class="bar"><span>kvsim</span>'
        '<button type="button" id="theme">Dark colours</button></header>\n<main id="main">\n'
        "<noscript><p>The charts need JavaScript. The text below each chart gives its numbers.</p>"
        "</noscript>\n" + "\n".join(lines) + "\n"
    )


def _facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Return a list of labels and texts, or nothing where there are none."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>\n" for name, text in facts)
    return f'<dl class="facts">\n{items}</dl>\n' if items else ""


def _policy(*scripts: str) -> str:
    """Return the policy of the page: run these scripts, use styles, show pictures made here."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _asset(name: str) -> str:
    return resources.files("kvsim.sim.report").joinpath(name).read_text(encoding="utf-8")
