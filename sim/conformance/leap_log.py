"""A leaper's schedule as a log: its leaps unrolled into steps.

The records are those of the stepper, without what only the stepper knows: physical block ids, the
number of distinct keys, the order of the free queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.conformance.schedule_log import ScheduleLog
from kvsim.sim.leaping.events import LeapListener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.conformance.schedule_log import Watcher
    from kvsim.sim.leaping.events import Served
    from kvsim.sim.leaping.leaper import Leaper
    from kvsim.traces.trace.trace import Trace

STEPPER_ONLY: Final = ("alloc", "evicted_ids", "cached_blocks", "free_queue_at_end")
"""Fields that a leaper cannot fill."""


class LeapLog(ScheduleLog, LeapListener):
    """A log as a listener of a leaper."""

    def __init__(self, trace: Trace, watcher: Watcher | None = None) -> None:
        super().__init__(trace, watcher)
        self._late: dict[int, list[int]] = {}
        self._dropped: dict[int, list[int]] = {}
        self._admitted: list[list[Any]] = []
        self._preempted: list[list[Any]] = []
        self._resumed_tokens_now = 0
        self._served: list[Served] = []
        self._first_open = 0  # oldest step without applied results

    def admitted(
        self,
        leaper: Leaper,
        index: int,
        now_ps: int,
        hit_tokens: int,
        num_tokens: int,
        *,
        resumed: bool,
    ) -> None:
        """Note an admitted request."""
        name = self._trace.request_id(index)
        self._admitted.append([name, hit_tokens, "resumed" if resumed else "new"])
        self._resumed_tokens_now += num_tokens if resumed else 0

    def preempted(
        self, leaper: Leaper, index: int, now_ps: int, lost_tokens: int, late_in: int | None
    ) -> None:
        """Note a victim; ``late_in``: the step in flight that still gives it a token."""
        self._preempted.append([self._trace.request_id(index), lost_tokens])
        if late_in is not None:
            self._late.setdefault(late_in, []).insert(0, index)

    def called(self, leaper: Leaper, step: int, items: list[Served], dropped: list[int]) -> None:
        """Note the served requests, in order."""
        self.recorder, self.caching = leaper.recorder, leaper.caching
        self._served = [*leaper.decoding(), *items]
        if dropped:
            self._dropped[step] = dropped

    def flown(self, leaper: Leaper, num_steps: int) -> None:
        """Write the leap's steps, and the results of all but the last one's boundary."""
        calls = leaper.unroll(num_steps)
        for j, times_ps in enumerate(calls.times_ps):
            record: dict[str, Any] = {
                "sched": [
                    [
                        self._trace.request_id(one.request),
                        one.num_tokens,
                        one.past + j,
                        "D" if one.decodes else "P",
                    ]
                    for one in self._served
                ],
                "admitted": self._admitted,
                "preempted": self._preempted,
                "free_after_schedule": calls.free[j],
                "evicted": calls.evicted[j],
            }
            self.add_call(times_ps, record, self._resumed_tokens_now)
            self._admitted, self._preempted, self._resumed_tokens_now = [], [], 0
            if j < len(calls.times_ps) - 1:
                self._result([], calls.free[j], calls.num_running, calls.waiting, times_ps[0])

    def landed(self, leaper: Leaper, finished: list[int], now_ps: int, last_call_ps: int) -> None:
        """Write the results applied at this boundary."""
        self._result(
            finished, leaper.num_free, leaper.num_running, leaper.waiting_list(), last_call_ps
        )

    def _result(
        self,
        finished: Sequence[int],
        num_free: int,
        num_running: int,
        waiting: Sequence[int],
        last_call_ps: int,
    ) -> None:
        step, name = self._first_open, self._trace.request_id
        self._first_open += 1
        self.add_result(
            {
                "finished": [name(index) for index in finished],
                "late": [name(index) for index in self._late.pop(step, [])],
                "dropped": [name(index) for index in self._dropped.pop(step, [])],
                "free_after_update": num_free,
                "running": num_running,
                "waiting": sum(self._arrival_ps[index] <= last_call_ps for index in waiting),
            }
        )
