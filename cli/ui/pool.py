"""The pools of runs in progress, side by side on the local page: an SVG picture and a line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from kvsim.cli.ui.result import legend, literal
from kvsim.sim.block_map import PoolFacts
from kvsim.sim.block_map.looks import DARK, LABELS, LIGHT, LOOKS
from kvsim.sim.block_map.scene import Picture, share_words
from kvsim.sim.block_map.stills import svg
from kvsim.sim.scenario.setup import EngineSetup, set_up
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlit.delta_generator import DeltaGenerator

    from kvsim.sim.comparison.lockstep import LivePool
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

BETWEEN_S: Final = 0.25
"""Between two pictures at least, in seconds of the one who looks."""
_DRAWING: Final = 0.15
"""Part of the time that may go into pictures: where there are many, they come less often."""
_ACROSS: Final = 4
_FEWEST_COLUMNS: Final = 3
"""So that one or two maps are no larger than three."""
_STYLE: Final = """<style>
@media (max-width: 640px) {
  .st-key-pools [data-testid=stColumn] { min-width: 0; flex: 0 0 calc(50% - 0.5rem); }
}
</style>"""
"""On a phone two maps are beside each other."""


class _Planned(NamedTuple):
    """A run that is yet to come."""

    trace: Trace
    scenario: Scenario
    setup: EngineSetup


class _Drawn(NamedTuple):
    """A pool, and where it is drawn."""

    pool: LivePool
    facts: PoolFacts
    picture: DeltaGenerator
    words: DeltaGenerator


class PoolView:
    """Draws pools that fill."""

    def __init__(self, place: DeltaGenerator) -> None:
        self._place = place.container(key="pools").empty()
        self._palette = DARK if st.context.theme.type == "dark" else LIGHT
        self._pools: Sequence[LivePool] = ()
        self._drawn: list[_Drawn] = []
        self._due_s = 0.0

    def __call__(self, pools: Sequence[LivePool], now_ps: int) -> None:
        """Draw all at one time of the simulation, if it is time for a picture."""
        start_s = time.monotonic()
        if start_s < self._due_s:
            return
        if pools is not self._pools:
            self._begin(pools)
        self._clock.caption(f"Simulated time: **{now_ps / PS_PER_S:.2f} s**")
        for one in self._drawn:
            self._draw(one, now_ps)
        end_s = time.monotonic()
        self._due_s = end_s + max(BETWEEN_S, (end_s - start_s) * (1 / _DRAWING - 1))

    def _begin(self, pools: Sequence[LivePool]) -> None:
        """Make places for so many pools, with one legend."""
        self._pools, self._drawn = pools, []
        with self._place.container():
            st.html(_STYLE)
            self._clock = st.empty()
            for first in range(0, len(pools), _ACROSS):
                row = pools[first : first + _ACROSS]
                columns = st.columns(max(min(len(pools), _ACROSS), _FEWEST_COLUMNS))
                for pool, column in zip(row, columns, strict=False):
                    planned = _Planned(pool.trace, pool.case.scenario, set_up(pool.case.scenario))
                    most_cells = pool.recording.options.most_cells
                    facts = PoolFacts.of(planned, pool.case.name, most_cells)
                    column.markdown(f"**{literal(pool.case.name)}**")
                    self._drawn.append(_Drawn(pool, facts, column.empty(), column.empty()))
            st.html(legend([(self._palette[look], LABELS[look]) for look in LOOKS]))

    def _draw(self, one: _Drawn, now_ps: int) -> None:
        found = one.pool.recording.so_far(one.facts)
        if not len(found):
            return
        picture = Picture.of([found], palette=self._palette)
        at = found.at(now_ps)
        one.picture.image(svg(picture.squares(0, now_ps)), width="stretch")
        counts = f"{found.running[at]:,} running, {found.waiting[at]:,} waiting"
        one.words.caption(f"{counts} · {share_words(picture.shares[0][at].tolist())}")
