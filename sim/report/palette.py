"""Colours of all figures: seven that stay apart for colour-blind eyes, on light and dark paper.

They are those of Okabe and Ito (2008); a test looks at them as three kinds of eyes do.
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
"""What is empty: a veil on either paper."""

CYCLE: Final = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
LINES: Final = tuple(
    {"color": colour, "dash": dash} for colour, dash in zip(CYCLE, _DASHES, strict=True)
)
"""Looks of curves, in order: they differ by their dashes, too."""

STATE_LABELS: Final = {
    "token": ("token", BLUE),
    "reserved": ("reserved (will fill)", SKY),
    "internal": ("internal (never fills)", VERMILLION),
    "external": ("external (holes, unusable)", PURPLE),
    "cached": ("cached (reusable)", GREEN),
    "free": ("free", PALE),
}
"""Words and colour of each state of KV memory."""
OURS: Final = BLUE
THEIRS: Final = VERMILLION
