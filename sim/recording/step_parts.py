"""The parts of step times, per time window: exact sums.

    weights    products with the weights, small kernels, the output head, all-reduces
    kv         attention of decodes over their contexts
    prefill    attention of prefills, and of decodes beside them where that has a term of its own
    overhead   the host's part as far as the device does not hide it, copies, kept scores
    idle       no step in flight

The parts add up to the covered time. So ``kv`` is not recorded: it is the rest. If a step crosses
the edge of a window, each window gets its share by time of each part, rounded down at each edge.
``kv`` is the rest again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.cost.equal_steps import steps_ps, steps_to_reach
from kvsim.sim.recording.memory_integrals import MemoryIntegrals

if TYPE_CHECKING:
    from kvsim.sim.cost.step_cost import StepTime

STEPS: Final = "steps"
"""Steps that end in a window."""

BOOKED_PARTS: Final = ("weights", "prefill", "overhead", "idle")
"""Columns of ps; see the module docstring."""

PARTS: Final = ("weights", "kv", "prefill", "overhead", "idle")
"""The parts of a window's time."""


class StepParts(MemoryIntegrals):
    """See the module docstring."""

    def __init__(self, span_ps: int, max_flips: int | None) -> None:
        super().__init__(span_ps, max_flips)
        self._steps = self._column(STEPS)
        self._weights, self._prefill, self._overhead, _ = map(self._column, BOOKED_PARTS)
        # sums of the window that steps begin in now, booked when they leave it
        self._here_ps = self._until_ps = 0
        self._steps_here = self._weights_here = self._prefill_here = self._overhead_here = 0

    @property
    def windows(self) -> dict[str, list[int]]:
        """Columns by name, all of one length."""
        self._book_here()
        return self._columns

    @property
    def num_steps(self) -> int:
        """Number of steps that were run."""
        return sum(self.windows[STEPS])

    def parts_ps(self) -> dict[str, list[int]]:
        """Return the time of each of ``PARTS`` per window; they add up to ``window``.

        ``kv`` may be a few ps below 0 because of rounding. It may be lower in the last window of a
        run that was stopped, because the whole step in flight may be recorded there.
        """
        columns = self.windows
        booked = {name: columns[name] for name in BOOKED_PARTS}
        rest = zip(columns["window"], *booked.values(), strict=True)
        booked["kv"] = [covered - sum(others) for covered, *others in rest]
        return {name: booked[name] for name in PARTS}

    def idle(self, start_ps: int, end_ps: int) -> None:
        """Record that no step was in flight over ``[start_ps, end_ps)``."""
        self._spread("idle", start_ps, end_ps, 1)

    def step(self, start_ps: int, time: StepTime) -> None:
        """One step."""
        parts = time.weights_ps, time.prefill_ps, time.overhead_ps
        ps = time.duration_ps
        if not ps or not self.steps(start_ps, start_ps + ps, 1, *parts):
            self.spread_steps(start_ps, 1, (ps, 0), *parts, 0)

    def steps(
        self,
        start_ps: int,
        end_ps: int,
        num_steps: int,
        weights_ps: int,
        prefill_ps: int,
        overhead_ps: int,
    ) -> bool:
        """Record steps in a row by the sums of their parts; return False (no change) at an edge.

        They start where the previous steps ended, or later, and last longer than 0.
        """
        if end_ps > self._until_ps:
            if self.window_end(start_ps) < end_ps:
                return False
            self._book_here()
            if end_ps > self._room_ps:
                self._make_room(end_ps - 1)
            self._here_ps, self._until_ps = start_ps, self.window_end(start_ps)
        self._steps_here += num_steps
        self._weights_here += weights_ps
        self._overhead_here += overhead_ps
        if prefill_ps:
            self._prefill_here += prefill_ps
        return True

    def _book_here(self) -> None:
        if self._steps_here:
            self._count(STEPS, self._here_ps, self._steps_here)
            window = self._here_ps // self.width_ps
            self._weights[window] += self._weights_here
            self._prefill[window] += self._prefill_here
            self._overhead[window] += self._overhead_here
            self._steps_here = self._weights_here = self._prefill_here = self._overhead_here = 0

    def spread_steps(
        self,
        start_ps: int,
        num_steps: int,
        step_ps: tuple[int, int],
        weights_ps: int,
        prefill_ps: int,
        overhead_ps: int,
        overhead_slope_ps: int,
    ) -> None:
        """Record steps in a row that may cross edges; ``step_ps`` is (first, slope).

        Parts are those of the first step. Step ``j`` lasts ``first + slope * j`` and has
        ``overhead_ps + overhead_slope_ps * j`` of overhead.
        """
        first_ps, slope_ps = step_ps
        if not first_ps:  # a call that only preempted requests
            self._count(STEPS, start_ps, num_steps)
            return
        while num_steps:
            span_ps = self.window_end(start_ps) - start_ps
            whole = min(steps_to_reach(first_ps, slope_ps, span_ps + 1) - 1, num_steps)
            if whole:
                end_ps = start_ps + steps_ps(first_ps, slope_ps, whole)
                sum_ps = steps_ps(overhead_ps, overhead_slope_ps, whole)
                self.steps(start_ps, end_ps, whole, whole * weights_ps, whole * prefill_ps, sum_ps)
                start_ps = end_ps
            else:
                self._cut_step(start_ps, first_ps, weights_ps, prefill_ps, overhead_ps)
                start_ps, whole = start_ps + first_ps, 1
            num_steps -= whole
            first_ps += slope_ps * whole
            overhead_ps += overhead_slope_ps * whole

    def _cut_step(self, start_ps: int, ps: int, *parts_ps: int) -> None:
        """Record one step that crosses the edge of a window; parts as in ``steps``."""
        self._count(STEPS, start_ps + ps - 1, 1)
        columns = (self._weights, self._prefill, self._overhead)
        done_ps, booked = 0, [0, 0, 0]
        while done_ps < ps:
            window = (start_ps + done_ps) // self.width_ps
            done_ps = min(self.window_end(start_ps + done_ps) - start_ps, ps)
            for i, part_ps in enumerate(parts_ps):
                upto = part_ps * done_ps // ps
                columns[i][window] += upto - booked[i]
                booked[i] = upto
