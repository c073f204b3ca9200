"""The pool of a run in progress, for the local page: a recording that shows itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.block_map import BlockMap, BlockRecording, PoolFacts
from kvsim.sim.block_map.scene import Picture
from kvsim.sim.block_map.stills import svg
from kvsim.sim.engine_setup import EngineSetup, set_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.comparison_runs import Case
    from kvsim.sim.scenario import Scenario
    from kvsim.sim.stepper import Stepper
    from kvsim.traces.trace import Trace

BETWEEN_S: Final = 0.25
"""Between two pictures, in seconds of the one who looks."""


class _Planned(NamedTuple):
    """A run that is yet to come."""

    trace: Trace
    scenario: Scenario
    setup: EngineSetup


class LivePool(BlockRecording):
    """Hands ``show`` an SVG picture of the pool now and then; what is empty counts as reserved.

    Whether a slot will ever be filled is known when its owner is done, not before.
    """

    def __init__(self, case: Case, trace: Trace, show: Callable[[str], object]) -> None:
        super().__init__(case.record)
        planned = _Planned(trace, case.scenario, set_up(case.scenario))
        self._facts = PoolFacts.of(planned, case.name, self.options.most_cells)
        self._show = show
        self._due_s = 0.0

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Record, and show what was recorded last."""
        super().planned(stepper, now_ps)
        if self.snapshots and time.monotonic() >= self._due_s:
            last = BlockMap.of(self._facts, self.snapshots[-1:])
            self._show(svg(Picture.of([last]).scene(self.snapshots[-1].time_ps)))
            self._due_s = time.monotonic() + BETWEEN_S
