"""Small pictures as SVG text: stacked bars, plain bars, curves. Same data, same bytes.

Text takes the colour of the page around it: the variable of the site, or the reader's light or dark
mode elsewhere. So one file serves both modes. Pictures are 480 wide and readable on a phone. The
picture with two panels is 720 wide, has larger text, and is readable from 400 to 800 pixels.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.report.palette import BLUE, GREY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 480
WIDE: Final = 720
_WIDE_TEXT: Final = 17
_WIDE_ROW: Final = 38
_WIDE_LEFT: Final = 168
_WIDE_STACK: Final = 300
_WIDE_GAP: Final = 26
_WIDE_NUMBER: Final = 58
_TEXT: Final = 13
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
    """One bar of shares that add up to at most 1, by state; ``after`` is the text behind it."""

    label: str
    shares: dict[str, float]
    after: str = ""


class Curve(NamedTuple):
    """Points of one line; ``label`` is at point ``label_at``, above it or below."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    label_at: int = -1
    below: bool = False


def stacks(title: str, bars: Sequence[Stack], colours: dict[str, tuple[str, str]]) -> str:
    """Return stacked bars of percent; ``colours`` gives each state its word and colour."""
    width = WIDTH - _LEFT - 12
    parts, top = _legend(colours, 30)
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
    return _picture(title, top + len(bars) * _ROW + 6, parts)


def stacks_beside(
    titles: tuple[str, str],
    bars: Sequence[Stack],
    values: Sequence[float],
    colours: dict[str, tuple[str, str]],
) -> str:
    """Return stacked bars of percent with the first title, and bars of values with the second."""
    right = _WIDE_LEFT + _WIDE_STACK + _WIDE_GAP
    longest = WIDE - right - _WIDE_NUMBER
    parts, top = _legend(colours, 38, _WIDE_TEXT)
    parts.append(
        f'<text x="{right}" y="20" font-weight="600">{escape(titles[1])}</text>'
        f'<path class="axis" d="M{right} {top}V{top + len(bars) * _WIDE_ROW - 8}"/>'
    )
    for row, (bar, value) in enumerate(zip(bars, values, strict=True)):
        y, base = top + row * _WIDE_ROW, top + row * _WIDE_ROW + 21
        parts.append(_text(_WIDE_LEFT - 10, base, bar.label, "end"))
        x = float(_WIDE_LEFT)
        for state, share in bar.shares.items():
            colour, wide = colours[state][1], _WIDE_STACK * share
            parts.append(_rect(x, y, wide, colour, _WIDE_ROW - 8))
            if share >= 0.08:
                tone = f"middle {_tone(colour)}".rstrip()
                parts.append(_text(x + wide / 2, base, f"{100 * share:.0f}", tone))
            x += wide
        wide = longest * value / max(values)
        parts.append(_rect(right, y, wide, GREY, _WIDE_ROW - 8))
        parts.append(_text(right + wide + 8, base, bar.after))
    return _picture(titles[0], top + len(bars) * _WIDE_ROW, parts, WIDE, _WIDE_TEXT)


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Return plain bars, each with a label, a value, and the value in words."""
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
    """Return lines over a logarithmic x axis; ticks give the ends of both axes."""
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


def _legend(
    colours: dict[str, tuple[str, str]], y: float, size: int = _TEXT
) -> tuple[list[str], float]:
    """Return words and patches in lines that start at ``y``, and the place below them."""
    parts, x, scale = [], 4.0, size / _TEXT
    width, patch = (WIDTH, 11) if size == _TEXT else (WIDE, 14)
    for word, colour in colours.values():
        wide = patch + 5 + scale * _LETTER * len(word)
        if x + wide > width:
            x, y = 4.0, y + round(18 * scale)
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{patch}" height="{patch}" fill="{colour}"/>'
        )
        parts.append(_text(x + patch + 5, y + patch - 1, word))
        x += wide + 14
    return parts, y + round(24 * scale)


def _rect(x: float, y: float, width: float, colour: str, height: int = _ROW - 5) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    if not words:
        return ""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(words)}</text>'


def _tone(colour: str) -> str:
    """Return the class of words on a colour: white or dark, or none on a pale veil."""
    if not colour.startswith("#"):
        return ""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "off" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "on"


def _picture(
    title: str, height: float, parts: Sequence[str], width: int = WIDTH, size: int = _TEXT
) -> str:
    style = "" if size == _TEXT else f' style="font-size:{size}px"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kvsim-figure"{style} role="img" '
        f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}">'
    )
    words = f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>"
    name = f'<text x="4" y="{size + 3}" font-weight="600">{escape(title)}</text>'
    return "\n".join([head, words, name, *filter(None, parts), "</svg>"]) + "\n"
