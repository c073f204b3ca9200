"""Colours of all figures: seven that colour-blind readers can tell apart, on light and dark paper.

They are the colours of Okabe and Ito (2008). A test compares them under three models of colour
blindness.
"""

from __future__ import annotations

from typing import Final

BLUE: Final = "#0072b2"
SKY: Final = "#56b4e9"
GREEN: Final = "#009e73"
ORANGE: Final = "#e69f00"
VERMILLION: Final = "#d55e00"
PURPLE: Final = "#cc79a7"
GREY: Final = "#8b939e"
PALE: Final = "rgba(139,147,158,0.25)"
"""Colour of empty memory: a veil on light and on dark paper."""
PALE_GREEN: Final = "rgba(0,158,115,0.4)"
"""Colour of memory that the allocator can take back at once: lighter than what requests hold."""

CYCLE: Final = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
LINES: Final = tuple(
    {"color": colour, "dash": dash} for colour, dash in zip(CYCLE, _DASHES, strict=True)
)
"""Colour and dash of each curve, in order. Curves also differ by their dashes."""

STATE_LABELS: Final = {
    "token": ("token", BLUE),
    "reserved": ("reserved (will fill)", SKY),
    "internal": ("internal (never fills)", VERMILLION),
    "external": ("external (holes, unusable)", PURPLE),
    "cached": ("cached (reusable)", PALE_GREEN),
    "free": ("free", PALE),
}
"""Label and colour of each state of KV memory. States that requests do not hold are lighter."""
CAUSE_LABELS: Final = {
    "step": ("the step in progress", PALE),
    "max_num_seqs": ("max_num_seqs", PURPLE),
    "token_budget": ("the token budget", ORANGE),
    "blocks": ("KV blocks", VERMILLION),
    "admission rule": ("an admission rule", GREEN),
}
"""Label and colour of each cause of waiting, after the words "waiting for"."""
OURS: Final = BLUE
THEIRS: Final = VERMILLION
_BRIGHT: Final = 140
"""Brightness, 0 to 255, from which text on a colour is dark."""


def on_colour(colour: str) -> str | None:
    """Colour of text on a bar; ``None`` is the page's own, for bars that let the page through."""
    if not colour.startswith("#"):
        return None
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#222222" if 0.299 * red + 0.587 * green + 0.114 * blue > _BRIGHT else "#ffffff"
