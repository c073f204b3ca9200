"""Small pictures as SVG text: stacked bars, plain bars, curves. Same data, same bytes.

Text takes the colour of the page it stands in (the site's own variable; elsewhere the light or dark
mode of the reader), so one file serves both. Pictures are 480 wide, readable on a phone.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.report.palette import BLUE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 480
_LETTER: Final = 7.2  # of 13 px, a little more than the mean
_LEFT: Final = 126
_ROW: Final = 26
_STYLE: Final = (
    ".kvsim-figure{font:13px system-ui,sans-serif;--ink:var(--md-default-fg-color,#222)}"
    "@media (prefers-color-scheme:dark){.kvsim-figure{--ink:var(--md-default-fg-color,#ddd)}}"
    ".kvsim-figure text{fill:var(--ink)}.kvsim-figure .on{fill:#fff}.kvsim-figure .off{fill:#222}"
    ".kvsim-figure .axis{stroke:var(--ink);stroke-opacity:.25}"
    ".kvsim-figure .end{text-anchor:end}.kvsim-figure .middle{text-anchor:middle}"
)


class Stack(NamedTuple):
    """One bar of shares that add up to at most 1, by state; ``after`` stands behind it."""

    label: str
    shares: dict[str, float]
    after: str = ""


class Curve(NamedTuple):
    """Points of one line; ``label`` stands at point ``label_at``, above it or below."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    label_at: int = -1
    below: bool = False


def stacks(
    title: str, bars: Sequence[Stack], colours: dict[str, tuple[str, str]], *, after: str = ""
) -> str:
    """Stacked bars of percent; ``colours`` gives each state its word and colour.

    ``after`` heads the column behind the bars.
    """
    width = WIDTH - _LEFT - (92 if after else 12)
    parts, top = _legend(colours, 30)
    top += 16 if after else 0
    if after:
        parts.append(_text(WIDTH - 4, top - 8, after, "end"))
    for row, bar in enumerate(bars):
        y = top + row * _ROW
        parts.append(_text(_LEFT - 8, y + 15, bar.label, "end"))
        x = float(_LEFT)
        for state, share in bar.shares.items():
            colour, wide = colours[state][1], width * share
            parts.append(_rect(x, y, wide, colour))
            if share >= 0.08:
                tone = f"middle {_tone(colour)}".rstrip()
                parts.append(_text(x + wide / 2, y + 15, f"{100 * share:.0f}", tone))
            x += wide
        parts.append(_text(WIDTH - 4, y + 15, bar.after, "end"))
    return _picture(title, top + len(bars) * _ROW + 6, parts)


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Plain bars: label, value, and the value in words."""
    width = WIDTH - _LEFT - 90
    largest = max(value for _, value, _ in rows)
    parts = []
    for row, (label, value, words) in enumerate(rows):
        y, wide = 34 + row * _ROW, width * value / largest
        parts += [
            _text(_LEFT - 8, y + 15, label, "end"),
            _rect(_LEFT, y, wide, BLUE),
            _text(_LEFT + wide + 6, y + 15, words),
        ]
    return _picture(title, 34 + len(rows) * _ROW + 6, parts)


def curves(
    title: str,
    lines: Sequence[Curve],
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    x_title: str,
    *,
    log_y: bool = False,
) -> str:
    """Lines over a logarithmic x axis; ticks give the ends of both axes."""
    height, top, left = 190, 34, 52
    across = _scale([x for x, _ in x_ticks], left, WIDTH - 24, log=True)
    up = _scale([y for y, _ in y_ticks], top + height, top, log=log_y)
    parts = []
    for value, words in y_ticks:
        y = up(value)
        parts.append(f'<path class="axis" d="M{left} {y:.1f}H{WIDTH - 24}"/>')
        parts.append(_text(left - 6, y + 4, words, "end"))
    for value, words in x_ticks:
        parts.append(_text(across(value), top + height + 18, words, "middle"))
    parts.append(_text((left + WIDTH) / 2, top + height + 38, x_title, "middle"))
    for line in lines:
        points = [(across(x), up(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2.5"/>'
        )
        x, y = points[line.label_at]
        parts.append(_text(x - 8, y + (20 if line.below else -8), line.label, "end"))
    return _picture(title, top + height + 48, parts)


def _scale(ticks: Sequence[float], start: float, end: float, *, log: bool) -> Callable[..., float]:
    form = math.log if log else float
    low, high = form(ticks[0]), form(ticks[-1])
    return lambda value: start + (end - start) * (form(value) - low) / (high - low)


def _legend(colours: dict[str, tuple[str, str]], y: float) -> tuple[list[str], float]:
    """Words and patches in lines from ``y`` on, and where what is below them starts."""
    parts, x = [], 4.0
    for word, colour in colours.values():
        wide = 16 + _LETTER * len(word)
        if x + wide > WIDTH:
            x, y = 4.0, y + 18
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, y + 10, word))
        x += wide + 14
    return parts, y + 24


def _rect(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 5}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    if not words:
        return ""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(words)}</text>'


def _tone(colour: str) -> str:
    """Class of words on a colour: white or dark; the page's own on a veil."""
    if not colour.startswith("#"):
        return ""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "off" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "on"


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kvsim-figure" role="img" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}">'
    )
    words = f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>"
    name = f'<text x="4" y="16" font-weight="600">{escape(title)}</text>'
    return "\n".join([head, words, name, *filter(None, parts), "</svg>"]) + "\n"
