"""Where the time to the first token went: each request's, in parts that add up to it.

    arrival        admission                preemption   admission          first token
       |  queue (cause)  |  prefill | between | prefill | preempted | prefill |
       |<--------------------------- TTFT ------------------------------------>|

``queue`` is split by what refused the queue's head (``queue_clock.CAUSES``); ``prefill``
are the steps that compute a part of the request; ``between chunks`` the steps, or ends of steps,
of others while it is admitted; ``preempted`` the time out of the engine before its first token.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.recording.waiting_clock import CAUSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight
    from kvsim.sim.recording.recorder import Recorder

PARTS: Final = (*(f"queue: {cause}" for cause in CAUSES), "prefill", "between chunks", "preempted")


class TtftParts(ScheduleListener):
    """Books every picosecond before a first token."""

    def __init__(self, num_requests: int) -> None:
        self._plans_ps: list[int] = []
        self._causes: list[int] = []
        self._clocks: list[list[int]] = []  # time under each cause, up to the plan
        self._admitted_ps: dict[int, int] = {}
        self._out_since_ps: dict[int, int] = {}
        self._prefill_ps = [0] * num_requests
        self._busy_until_ps = [0] * num_requests
        self._out_ps = [0] * num_requests

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        """Scheduling calls are done for now; from here on the queue's head waits for a cause."""
        clock = [0] * len(CAUSES)
        if self._plans_ps:
            clock = self._clocks[-1].copy()
            clock[self._causes[-1]] += now_ps - self._plans_ps[-1]
        self._plans_ps.append(now_ps)
        self._causes.append(CAUSES.index(stepper.cause))
        self._clocks.append(clock)

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """A call admits, preempts, and hands out chunks."""
        waiting_for_first = stepper.recorder.first_token_ps
        for admission in flight.step.admitted:
            index = admission.sequence.index
            self._admitted_ps.setdefault(index, flight.call_ps)
        back = [one.sequence for one in flight.step.admitted]
        back += [one.sequence for one in flight.step.swapped_in]
        for index in (sequence.index for sequence in back):
            since_ps = self._out_since_ps.pop(index, None)
            if since_ps is not None and waiting_for_first[index] < 0:
                self._out_ps[index] += max(flight.call_ps - since_ps, 0)
        for preemption in flight.step.preempted:
            index = preemption.sequence.index
            if waiting_for_first[index] < 0:
                busy_ps = self._busy_until_ps[index]  # a step in flight goes on computing it
                self._out_since_ps[index] = max(flight.call_ps, busy_ps)
        for item in flight.items:
            self._busy_until_ps[item.sequence.index] = flight.end_ps

    def applied(self, stepper: Stepper, results: Results) -> None:
        """A step ended: it was prefill for all in it whose first token it is, or is yet to come."""
        flight = results.step_in_flight
        for item in flight.items:
            index = item.sequence.index
            if stepper.recorder.first_token_ps[index] in {-1, flight.end_ps}:
                self._prefill_ps[index] += flight.end_ps - flight.start_ps

    @property
    def admission_order(self) -> list[int]:
        """Requests in the order in which they were first admitted."""
        return list(self._admitted_ps)

    def table(self, recorder: Recorder) -> NDArray[np.int64]:
        """Picoseconds by request and part, shape ``(n, len(PARTS))``; -1 without a first token."""
        assert recorder.arrival_ps is not None, "the driver sets the arrivals"
        rows = np.full((len(self._out_ps), len(PARTS)), -1, dtype=np.int64)
        for index, first_ps in enumerate(recorder.first_token_ps):
            if first_ps < 0:
                continue
            arrival_ps, admitted_ps = recorder.arrival_ps[index], self._admitted_ps[index]
            before, after = self._clock_at(arrival_ps), self._clock_at(admitted_ps)
            queue = [late - early for early, late in zip(before, after, strict=True)]
            inside_ps = first_ps - admitted_ps
            prefill_ps, out_ps = self._prefill_ps[index], self._out_ps[index]
            rows[index] = [*queue, prefill_ps, inside_ps - prefill_ps - out_ps, out_ps]
        return rows

    def _clock_at(self, time_ps: int) -> list[int]:
        """Time under each cause up to ``time_ps``; before the first plan there is none."""
        place = bisect_right(self._plans_ps, time_ps) - 1
        if place < 0:
            return [0] * len(CAUSES)
        clock = self._clocks[place].copy()
        clock[self._causes[place]] += time_ps - self._plans_ps[place]
        return clock
