"""When sessions begin, for files whose clocks all start at 0 with the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvsim.traces.common.counted import counted
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kvsim.traces.reading.wishes import Wishes


@dataclass(slots=True)
class SessionStarts:
    """Hands out one start a session, in file order; the first is 0.

    One session alone needs no law. Where nothing needs to say it, all start at 0.
    """

    path: Path
    wishes: Wishes
    num_sessions: int = field(init=False, default=0)
    _times: Iterator[int] | None = field(init=False, default=None)

    def next_ns(self) -> int:
        """Return when the next session starts; TraceError where nothing says it."""
        self.num_sessions += 1
        rule = self.wishes.session_starts
        if rule is not None:
            if self._times is None:
                self._times = rule.stream_ns(self.wishes.rngs[1])
            return next(self._times)
        if self.num_sessions > 1 and not self.wishes.may_lack_times:
            raise TraceError(
                f"{self.path}: each session's times begin at 0 and nothing says when sessions "
                "start: say it with --session-rate R (sessions per second, Poisson) or "
                "--session-starts rate=R|poisson(rate=R)|gamma(cv=X,rate=R)|weibull(shape=X,"
                "rate=R), or let kvsim simulate close the loop with --users N"
            )
        return 0

    @property
    def unknown(self) -> bool:
        """Whether several sessions were put at 0 because nothing says when they start."""
        return self.wishes.session_starts is None and self.num_sessions > 1

    def check_used(self) -> None:
        """Raise where the user says when sessions start, and the file's own times stand."""
        if self.wishes.session_starts is not None and not self.num_sessions:
            raise TraceError(
                f"{self.path}: --session-starts and --session-rate are for files whose sessions "
                "all begin at 0, and this one has times of its own: leave them out (--rate-scale "
                "changes the rate)"
            )

    def note(self) -> str:
        """Say how starts came about."""
        rule = self.wishes.session_starts
        if rule is not None:
            return (
                f"{counted(self.num_sessions, 'session starts', 'sessions start')} by "
                f"--session-starts {rule}"
            )
        if self.num_sessions == 1:
            return "one session, which starts at 0"
        return f"{self.num_sessions:,} sessions, whose starts the file does not say: all at 0"
