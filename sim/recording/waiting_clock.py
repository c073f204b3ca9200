"""How long requests waited, for what reason, and at what times.

The waiting time is recorded by cause, per time window. The class also keeps the *stretches* of time
in which requests waited after a scheduling call. They can be queried for past times, as far back as
a request may hold memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kvsim.sim.recording.time_windows import TimeWindows

MAX_FLIPS: Final = 4096  # a last block is younger than block_size + 2 scheduling calls

CAUSES: Final = ("step", "max_num_seqs", "token_budget", "blocks", "admission rule")
"""Why a request waits: for the end of the present step, or the reason why the head is refused.

Each cause has an integral: waiting requests x ps. Requests on the host also wait.
"""

PREEMPTED: Final = {cause: f"preempted, {cause}" for cause in CAUSES}
"""The part of each cause's integral that belongs to preempted requests."""


class QueueClock(TimeWindows):
    """See the module docstring.

    ``max_flips``: how often requests may start or stop to wait while a request holds its last
    block. ``None``: no limit, for memory that is held for a request's whole life.
    """

    def __init__(self, span_ps: int, max_flips: int | None) -> None:
        super().__init__(span_ps)
        for name in (*CAUSES, *PREEMPTED.values()):
            self._column(name)
        self.requests_waiting = False
        self._flips: deque[tuple[int, int]] = deque([(0, 0)], maxlen=max_flips)
        self._preempted: set[int] = set()  # preempted requests that have not returned
        self._num_waiting = self._num_preempted = 0
        self._waiting_since_ps = 0
        self._cause = CAUSES[0]

    def queue(self, now_ps: int, num_waiting: int, cause: str | None = None) -> None:
        """Record the queue's length from now on; ``cause`` replaces the reason to wait."""
        since_ps = self._waiting_since_ps
        if self._num_waiting and now_ps > since_ps:
            self._spread(self._cause, since_ps, now_ps, self._num_waiting)
            if self._num_preempted:
                self._spread(PREEMPTED[self._cause], since_ps, now_ps, self._num_preempted)
        self._num_waiting, self._waiting_since_ps = num_waiting, now_ps
        self._num_preempted = len(self._preempted)
        if cause is not None:
            self._cause = cause

    @property
    def waited_ps(self) -> dict[str, int]:
        """Return the request-ps spent waiting, by cause."""
        return {cause: sum(self.windows[cause]) for cause in CAUSES}

    def set_waiting(self, now_ps: int, requests_waiting: bool) -> None:
        """Start or end a stretch in which requests wait after a scheduling call."""
        if requests_waiting != self.requests_waiting:
            self._flips.append((now_ps, self._waited_before(now_ps)))
            self.requests_waiting = requests_waiting

    def _waited_between(self, start_ps: int, end_ps: int) -> int:
        """Return the time in which requests waited, from ``start_ps`` to ``end_ps``."""
        if not self.requests_waiting and self._flips[-1][0] <= start_ps:
            return 0
        return self._waited_before(end_ps) - self._waited_before(start_ps)

    def _waited_before(self, time_ps: int) -> int:
        waiting = self.requests_waiting
        for flip_ps, waited_ps in reversed(self._flips):
            if flip_ps <= time_ps:
                return waited_ps + (time_ps - flip_ps if waiting else 0)
            waiting = not waiting
        msg = "a request's last block is older than the kept stretches"
        raise AssertionError(msg)
