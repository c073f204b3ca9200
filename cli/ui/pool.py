"""The pools of runs in progress, on the local page: an SVG picture and a line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import streamlit as st

from kvsim.cli.ui.result import legend, literal
from kvsim.sim.block_map import PoolFacts
from kvsim.sim.block_map.colours import DARK, LABELS, LIGHT, LOOKS
from kvsim.sim.block_map.scene import Picture, share_words
from kvsim.sim.block_map.stills import svg
from kvsim.sim.scenario.setup import EngineSetup, set_up
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from kvsim.sim.comparison.runs import LivePool
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


class PoolView:
    """Draws pools that fill, one after the other; those that are full stay."""

    def __init__(self, place: DeltaGenerator) -> None:
        self._place = place.container(key="pools").empty()
        self._palette = DARK if st.context.theme.type == "dark" else LIGHT
        self._places: list[DeltaGenerator] = []
        self._facts: PoolFacts | None = None
        self._shown = -1
        self._due_s = 0.0

    def __call__(self, pool: LivePool, now_ps: int) -> None:
        """Draw a pool at a time of the simulation, if it is time for a picture."""
        start_s = time.monotonic()
        if start_s < self._due_s:
            return
        if not self._places:
            self._make_places(pool.num_runs)
        if pool.place != self._shown:
            self._begin(pool)
        self._draw(pool, now_ps)
        end_s = time.monotonic()
        self._due_s = end_s + max(BETWEEN_S, (end_s - start_s) * (1 / _DRAWING - 1))

    def _make_places(self, num_pools: int) -> None:
        """Make places for so many pools, with one legend."""
        with self._place.container():
            st.html(_STYLE)
            for first in range(0, num_pools, _ACROSS):
                columns = st.columns(max(min(num_pools, _ACROSS), _FEWEST_COLUMNS))
                self._places += columns[: num_pools - first]
            st.html(legend([(self._palette[look], LABELS[look]) for look in LOOKS]))

    def _begin(self, pool: LivePool) -> None:
        """Go on with the next pool."""
        self._shown = pool.place
        planned = _Planned(pool.trace, pool.case.scenario, set_up(pool.case.scenario))
        self._facts = PoolFacts.of(planned, pool.case.name, pool.recording.options.most_cells)
        column = self._places[pool.place]
        column.markdown(f"**{literal(pool.case.name)}**")
        self._picture, self._words = column.empty(), column.empty()

    def _draw(self, pool: LivePool, now_ps: int) -> None:
        assert self._facts is not None, "a pool has begun"
        found = pool.recording.so_far(self._facts)
        if not len(found):
            return
        picture = Picture.of([found], palette=self._palette)
        at = found.at(now_ps)
        self._picture.image(svg(picture.squares(0, now_ps)), width="stretch")
        counts = f"{found.running[at]:,} running, {found.waiting[at]:,} waiting"
        shares = share_words(picture.shares[0][at].tolist())
        self._words.caption(f"At {now_ps / PS_PER_S:.2f} s: {counts} · {shares}")
