"""Watches a stepper and keeps snapshots of its pool, at most so many, spread over the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.block_map.block_map import BlockMap
from kvsim.sim.block_map.cells import Grid, cut, folded, never_slots
from kvsim.sim.block_map.pieces import CODE
from kvsim.sim.block_map.places.base import places_of
from kvsim.sim.block_map.record_options import RecordOptions
from kvsim.sim.block_map.snapshot import Snapshot
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.recording.recorder import NEVER_PS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.block_map.pieces import Residency
    from kvsim.sim.block_map.places.base import Places
    from kvsim.sim.block_map.pool_facts import PoolFacts
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import StepInFlight

FIRST_WIDTH_PS: Final = 2**30
"""About 1 ms between snapshots at least; doubled as often as there are too many."""


class BlockRecording(ScheduleListener):
    """Listener of one run, which steps; :meth:`block_map` gives what it saw afterwards.

    A snapshot is taken after the first scheduling call in each stretch of ``width_ps``; when there
    would be more than ``options.most_snapshots``, the width doubles and one a stretch is kept. The
    last one is of the run's end, if that is in the window.
    """

    def __init__(self, options: RecordOptions | None = None) -> None:
        self.options = options or RecordOptions()
        self.snapshots: list[Snapshot] = []
        self._width_ps = self.options.first_width_ps or FIRST_WIDTH_PS
        self._next_ps = self.options.start_ps
        self._carried: NDArray[np.int32] | int = 0  # evicted in snapshots that were given up
        self._last_ps = -1
        self._final: dict[Residency, int] = {}
        self._grid: Grid | None = None
        self._places: Places | None = None
        self._stepper: Stepper | None = None

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """Note how many tokens each residency has by now: what it ends with is its last note."""
        for item in flight.items:
            self._final[item.sequence.index, item.preemption_count] = item.past + item.num_tokens

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Take a snapshot if one is due; one at the time of the last takes its place."""
        self._last_ps = now_ps
        if not self._in_window(now_ps):
            return
        again = bool(self.snapshots) and self.snapshots[-1].time_ps == now_ps
        if now_ps < self._next_ps and not again:
            return
        if self._grid is None:
            self._begin(stepper)
        self._take(stepper, now_ps)
        self._thin()
        start_ps = self.options.start_ps
        self._next_ps = now_ps - (now_ps - start_ps) % self._width_ps + self._width_ps

    def _in_window(self, time_ps: int) -> bool:
        return self.options.start_ps <= time_ps <= self.options.stop_ps

    def _begin(self, stepper: Stepper) -> None:
        config = stepper.config
        self._grid = Grid.of_pool(config, self.options.most_cells)
        self._places = places_of(stepper.state.allocator, config)
        self._stepper = stepper
        if self.options.first_width_ps is None:
            self._spread_over(stepper)

    def _spread_over(self, stepper: Stepper) -> None:
        """Begin with snapshots as far apart as arrivals that are known would have them."""
        arrivals = stepper.recorder.arrival_ps or ()
        span_ps = max((time_ps for time_ps in arrivals if time_ps < NEVER_PS), default=0)
        while self._width_ps * self.options.most_snapshots < span_ps:
            self._width_ps *= 2

    def _take(self, stepper: Stepper, now_ps: int) -> None:
        """Add a snapshot, or put it in the place of one of the same time."""
        snapshot = self._snapshot(stepper, now_ps)
        snapshot.evicted += self._carried
        self._carried = 0
        if self.snapshots and self.snapshots[-1].time_ps == now_ps:
            snapshot.evicted += self.snapshots.pop().evicted
        self.snapshots.append(snapshot)

    def _snapshot(self, stepper: Stepper, now_ps: int) -> Snapshot:
        assert self._grid is not None
        assert self._places is not None
        state = stepper.state
        pieces = self._places.pieces(state)
        num_waiting = state.num_waiting
        return Snapshot(
            now_ps,
            len(state.running),
            num_waiting,
            _blank_state(stepper, num_waiting),
            folded(pieces, self._grid),
            pieces.empties,
            self._evicted(),
        )

    def _evicted(self) -> NDArray[np.int32]:
        """Slots of each cell that lost cached content since the last snapshot."""
        assert self._grid is not None
        assert self._places is not None
        rows = np.array(self._places.take_evicted(), dtype=np.int64).reshape(-1, 2)
        cell, slots, _ = cut(rows[:, 0], rows[:, 1], self._grid)
        sums = np.bincount(cell, weights=slots, minlength=self._grid.num_cells)
        return sums.astype(np.int32)

    def _thin(self) -> None:
        """While there are too many, keep the first of each stretch of twice the width."""
        while len(self.snapshots) > max(self.options.most_snapshots - 1, 1):
            self._width_ps *= 2
            kept: list[Snapshot] = []
            last = -1
            for snapshot in self.snapshots:
                stretch = (snapshot.time_ps - self.options.start_ps) // self._width_ps
                if stretch == last:
                    self._carried = self._carried + snapshot.evicted
                    continue
                snapshot.evicted += self._carried
                kept.append(snapshot)
                self._carried, last = 0, stretch
            self.snapshots = kept

    def so_far(self, facts: PoolFacts) -> BlockMap:
        """The last two snapshots of a run in progress.

        What will be filled is told as if all who own ran to their ends: who is preempted before
        that leaves more unfilled.
        """
        last = self.snapshots[-2:]
        found = BlockMap.of(facts, last)
        for number, snapshot in enumerate(last):
            never = self._never(snapshot)
            found.slots[number, CODE["future"]] -= never
            found.slots[number, CODE["never"]] += never
        return found

    def _never(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """Slots of each cell that stay empty if residencies end with their requests."""
        assert self._stepper is not None, "who has a snapshot has begun"
        assert self._grid is not None
        owners = {empty.residency for empty in snapshot.empties}
        final = {one: self._stepper.num_slots(one[0]) for one in owners}
        return never_slots(snapshot.empties, final, self._grid)

    def block_map(self, facts: PoolFacts) -> BlockMap:
        """What was seen of a run that has ended; the last snapshot is of its end."""
        with_end = self._in_window(self._last_ps) and self.options.most_snapshots > 1
        if with_end and self._stepper is not None and self.snapshots[-1].time_ps < self._last_ps:
            self._take(self._stepper, self._last_ps)
        self._resolve()
        return BlockMap.of(facts, self.snapshots)

    def _resolve(self) -> None:
        """Tell what will be filled from what never is: residencies have ended."""
        if self._stepper is None or self._grid is None:
            return
        owners = self._stepper.state.allocator.owners()
        final = {one: tokens for one, tokens in self._final.items() if one[0] not in owners}
        for snapshot in self.snapshots:
            never = never_slots(snapshot.empties, final, self._grid)
            snapshot.cells.slots[CODE["future"]] -= never
            snapshot.cells.slots[CODE["never"]] += never
            snapshot.empties = []


def _blank_state(stepper: Stepper, num_waiting: int) -> str:
    """What blank slots are: free, blocked while somebody waits, or holes too small for the head."""
    if not num_waiting:
        return "free"
    return "hole" if stepper.memory.fragmented else "blocked"
