"""Closed loops: sessions are SimPy processes around an engine.

A session sends a request and waits for its output. After a think time it sends the turns that
follow. A turn that follows several outputs is sent its think time after the last of them has
finished. The first requests of sessions are sent at their own times. With ``num_users`` users take
the sessions instead: each user goes through one session after the other.

Each process only submits and waits. The engine runs by the same boundaries as in ``driver.py``. The
next other event (``peek``) may cut a leap. At one instant outputs finish, sessions send, clients
give up, and only then the next call is made. SimPy's order of the processes at one instant has no
effect, because their requests are sorted by position in the trace (``docs/order.md``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
import simpy
from simpy.events import URGENT, Event, EventPriority

from kvsim.sim.recording.recorder import NEVER_PS, NOT_SENT
from kvsim.traces.common.quantities import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kvsim.sim.engine.driver import Engine
    from kvsim.sim.engine.requests import Requests
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.adjust.closed_loop import FollowOns

PLAN: Final = EventPriority(2)  # after everything else at the same instant


class SessionDriver:
    """Passes the requests of sessions to an engine and wakes it at its boundaries.

    Parameters
    ----------
    follow_ons : FollowOns
        Which requests wait for which outputs.
    num_users : int, optional
        Number of users that take the sessions, each one after the other, in order of their times,
        instead of starting them at those times. A user pauses before each session but its first,
        for the delay of the session's first request.
    """

    def __init__(
        self,
        engine: Engine,
        requests: Requests,
        recorder: Recorder,
        follow_ons: FollowOns,
        num_users: int | None = None,
        on_boundary: Callable[[], None] | None = None,
    ) -> None:
        self._engine = engine
        self._recorder = recorder
        self._arrival_ps = requests.arrival_ps
        self._timeout_ps = requests.timeout_ps
        self._refused = requests.refused
        self._sent = bytearray(len(requests))
        self._num_users = num_users
        self._on_boundary = on_boundary
        self._env = simpy.Environment(0)
        self._done: dict[int, Event] = {}
        self._arriving: list[tuple[int, int]] = []  # sent, but not passed to the engine yet
        self._aborts: list[tuple[int, int]] = []
        self._idle = True
        self._stop = False
        waiting, parents = follow_ons.pairs()
        self._num_awaited = np.bincount(waiting, minlength=len(requests)).tolist()
        self._delay_ps = [delay * PS_PER_NS for delay in follow_ons.delay_ns.tolist()]
        self._children: dict[int, list[int]] = {}
        for child, parent in zip(waiting.tolist(), parents.tolist(), strict=True):
            self._children.setdefault(parent, []).append(child)
        roots = np.flatnonzero(follow_ons.parent < 0).tolist()
        self._roots = deque(sorted(roots, key=self._arrival_ps.__getitem__))

    def run(self) -> None:
        """Run until every session is over, or until :meth:`stop`."""
        if self._num_users is None:
            self._env.process(self._start_at_their_times())
        else:
            for _ in range(min(self._num_users, len(self._roots))):  # others find no session
                self._env.process(self._user())
        self._env.run()
        for index, sent in enumerate(self._sent):
            if not sent:
                self._arrival_ps[index] = NEVER_PS

    def stop(self) -> None:
        """End the run at the next boundary."""
        self._stop = True

    def clock_ended(self) -> bool:
        """Whether the time is beyond what the recorder's columns can hold."""
        return int(self._env.now) >= NEVER_PS

    # ---- sessions --------------------------------------------------------------------------

    def _start_at_their_times(self) -> Generator[Event]:
        env = self._env
        while self._roots:
            index = self._roots.popleft()
            if self._arrival_ps[index] > env.now:
                yield env.timeout(self._arrival_ps[index] - int(env.now))
            env.process(self._thread(index, 0))

    def _user(self) -> Generator[Event]:
        is_first = True
        while self._roots:
            index = self._roots.popleft()
            pause_ps = 0 if is_first else self._delay_ps[index]
            is_first = False
            yield self._env.process(self._thread(index, pause_ps))

    def _thread(self, index: int, delay_ps: int) -> Generator[Event]:
        """Send one request, and everything that follows its output."""
        if delay_ps:
            yield self._env.timeout(delay_ps)
        ended = self._send(index)
        if ended is None:
            self._end_session(index)
            return
        patience_ps = self._timeout_ps[index] if self._timeout_ps is not None else -1
        if patience_ps >= 0:
            yield ended | self._env.timeout(patience_ps)
            if not ended.triggered:  # the client gives up and asks for nothing more
                del self._done[index]
                self._aborts.append((int(self._env.now), index))
                self._end_session(index)
                return
        else:
            yield ended
        if ended.value is None:
            self._end_session(index)
            return
        followers = [
            self._env.process(self._thread(child, self._delay_ps[child])) for child in ended.value
        ]
        if followers:
            yield self._env.all_of(followers)

    def _due_after(self, index: int) -> list[int]:
        """Return the requests that wait for no output but this one, which has just finished."""
        due = []
        for child in self._children.get(index, ()):
            self._num_awaited[child] -= 1
            if not self._num_awaited[child]:
                due.append(child)
        return due

    def _send(self, index: int) -> Event | None:
        """Submit a request now; return the event of its end, ``None`` if it is refused at once.

        The value of the event is the list of requests that are then due, ``None`` if the request is
        refused later.
        """
        now_ps = int(self._env.now)
        if self.clock_ended():
            raise OverflowError("beyond the clock's end")  # as the recorder's arrays do
        self._arrival_ps[index] = now_ps
        self._sent[index] = 1
        self._arriving.append((now_ps, index))
        if self._idle:
            self._idle = False
            self._post(self._plan, now_ps)
        if self._refused[index]:
            return None
        ended = self._done[index] = self._env.event()
        return ended

    def _end_session(self, index: int) -> None:
        """End a session after a refused or aborted request; what would follow is never sent."""
        unsent = list(self._children.get(index, ()))
        while unsent:
            child = unsent.pop()
            if self._recorder.status[child] != NOT_SENT:
                self._recorder.status[child] = NOT_SENT
                unsent += self._children.get(child, ())

    # ---- the engine ------------------------------------------------------------------------

    def _boundary(self, _event: Event) -> None:
        """Apply the results of a step (or leap), which wake the sessions that wait for them.

        A client that gave up meanwhile gets no result, not even a last token.
        """
        now_ps = int(self._env.now)
        self._tell_arrivals()
        self._tell_aborts(now_ps)
        for index in sorted(self._engine.apply(now_ps)):
            self._done.pop(index).succeed(self._due_after(index))
        if self._on_boundary is not None:
            self._on_boundary()
        self._post(self._plan, now_ps)

    def _plan(self, _event: Event) -> None:
        """Make the scheduling calls that are due, after all sessions have sent their requests."""
        self._tell_arrivals()
        if self._stop:
            raise simpy.core.StopSimulation(None)
        now_ps = int(self._env.now)
        self._tell_aborts(now_ps)
        boundary_ps = self._engine.plan(now_ps)
        for index in self._engine.take_refused():
            self._done.pop(index).succeed()
        if boundary_ps is None:
            self._idle = True
            return
        due_ps = self._env.peek()
        if due_ps <= boundary_ps:
            boundary_ps = self._engine.cut(int(due_ps))
        self._post(self._boundary, boundary_ps)

    def _tell_arrivals(self) -> None:
        """Pass what was sent to the engine, each at its own time, ties in trace order."""
        for sent_ps, index in sorted(self._arriving):
            self._engine.add(index, sent_ps)
        self._arriving.clear()

    def _tell_aborts(self, now_ps: int) -> None:
        """Abort the requests of clients that gave up, in order of time, then of the trace."""
        for _, index in sorted(self._aborts):
            self._engine.abort(index, now_ps)
        self._aborts.clear()

    def _post(self, callback: Callable[[Event], None], at_ps: int) -> None:
        timer = Event(self._env)
        timer._ok, timer._value = True, None  # as in Timeout, which has no priority
        assert timer.callbacks is not None
        timer.callbacks.append(callback)
        self._env.schedule(timer, PLAN if callback == self._plan else URGENT, at_ps - self._env.now)
