"""Calls that take turns: each has a clock of its own, and who is furthest behind goes on.

A simulation is one long call. Each is given a thread, of which one at a time runs: results are
those of calls made one after the other, and nothing they share needs a lock.
"""

from __future__ import annotations

from contextlib import ExitStack
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    Call = Callable[["Marks"], object]

_START: Final = -1


class _StoppedError(BaseException):
    """Raised in a call whose end nobody waits for any more."""


class Marks:
    """Where a call says how far it has come, and waits for its next turn."""

    def __init__(self) -> None:
        self.told: SimpleQueue[int | None] = SimpleQueue()
        self.go: SimpleQueue[bool] = SimpleQueue()

    def passed(self, now_ps: int) -> None:
        """Hand over to the others; called by the call itself."""
        self.told.put(now_ps)
        if not self.go.get():
            raise _StoppedError


class _Turn:
    """A call in its thread; ``now_ps`` is the last time that it has passed."""

    def __init__(self, call: Call) -> None:
        self.now_ps = _START
        self._call = call
        self._marks = Marks()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            if self._marks.go.get():
                self._call(self._marks)
        except _StoppedError:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._marks.told.put(None)

    def take(self) -> bool:
        """Let it run to its next mark; False at its end, where what it raised is raised here."""
        self._marks.go.put(True)
        now_ps = self._marks.told.get()
        if self._error is not None:
            raise self._error
        if now_ps is None:
            return False
        self.now_ps = now_ps
        return True

    def stop(self) -> None:
        """End it at its next mark, if it has not ended."""
        self._marks.go.put(False)
        self._thread.join()


def in_turns(calls: Sequence[Call]) -> Generator[int]:
    """Make the calls side by side; yields, after each turn, the time that all have come to.

    A call that has ended holds nobody up. Where one raises, or the iterator is closed, all others
    are stopped at their next marks.
    """
    with ExitStack() as stack:
        running = [_Turn(call) for call in calls]
        for turn in running:
            stack.callback(turn.stop)
        time_ps = 0
        while running:
            turn = min(running, key=_now_ps)
            if not turn.take():
                running.remove(turn)
            time_ps = max(time_ps, min(map(_now_ps, running), default=turn.now_ps))
            yield time_ps


def _now_ps(turn: _Turn) -> int:
    return turn.now_ps
