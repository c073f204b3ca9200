"""Presets of ``kvsim compare``: ready sets of scenarios, some with traces, one file each.

The door is :func:`comparison_preset`; :mod:`~kvsim.sim.comparison.presets.base` says what one is.
"""

from typing import Final

from kvsim.sim.comparison.presets.base import (
    Change,
    ComparisonPreset,
    Published,
    PublishedLine,
    PublishedTable,
)
from kvsim.sim.comparison.presets.levers import Levers
from kvsim.sim.comparison.presets.long_vs_short import LongVsShort
from kvsim.sim.comparison.presets.sosp23_blocks import Sosp23Blocks
from kvsim.sim.comparison.presets.sosp23_fig2 import Sosp23Fig2
from kvsim.sim.comparison.presets.sosp23_prefix import Sosp23Prefix
from kvsim.sim.comparison.presets.sosp23_sharing import Sosp23Sharing
from kvsim.traces.common.names import unknown

__all__ = [
    "COMPARISON_PRESETS",
    "Change",
    "ComparisonPreset",
    "Published",
    "PublishedLine",
    "PublishedTable",
    "comparison_preset",
]

COMPARISON_PRESETS: Final[dict[str, ComparisonPreset]] = {
    preset.name: preset
    for preset in (
        Levers(),
        LongVsShort(),
        Sosp23Fig2(),
        Sosp23Blocks(),
        Sosp23Prefix(),
        Sosp23Sharing(),
    )
}


def comparison_preset(name: str) -> ComparisonPreset:
    """Preset by name; an unknown name lists the choices."""
    if name not in COMPARISON_PRESETS:
        raise ValueError(unknown("--preset", name, COMPARISON_PRESETS))
    return COMPARISON_PRESETS[name]
