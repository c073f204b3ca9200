"""The pool while it fills: a panel that is drawn again at most ten times a second.

A leap may take seconds of the engine's clock. With a speed, the clock is shown to run evenly
through it, and what is known of its start stays until its end.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.cli.text.colour import shown
from kvsim.cli.text.watch_panel import Clock, Snapshot, panel_lines
from kvsim.sim.engine.observer import Observer
from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.common.text import printable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from kvsim.sim.engine.observer import EngineView
    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

FRAME_S: Final = 0.1
_WATCHED_S: Final = 20.0
_RATE_FRAMES: Final = 10
_HISTORY: Final = 60
_HIDE, _SHOW, _UP, _CLEAR = "\x1b[?25l", "\x1b[?25h", "\x1b[{}F", "\x1b[J"
_REST_OF_LINE: Final = "\x1b[K"


class Watch(Observer):
    """Context manager and observer; ``speed``: simulated seconds a second (``None``: see above)."""

    def __init__(self, scenario: Scenario, pool: PoolShape, speed: float | None) -> None:
        preset = scenario.preset or "own scenario"
        self._about = f"{scenario.model.name} on {scenario.hardware.name}, {preset}"
        self._pool = pool
        self._speed = speed
        self._snapshot: Snapshot | None = None
        self._drawn = 0  # lines on the screen
        self._drawn_s = 0.0
        self._start_s = 0.0
        self._tokens: deque[tuple[int, int]] = deque(maxlen=_RATE_FRAMES)
        self._history: deque[float] = deque(maxlen=_HISTORY)

    def __enter__(self) -> Self:
        sys.stdout.write(_HIDE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wipe()
        sys.stdout.write(_SHOW)
        sys.stdout.flush()

    # ---- what the engine tells -------------------------------------------------------------

    def begins(self, trace: Trace, recorder: Recorder) -> None:
        """Choose the speed: of the trace's arrivals, where none is given."""
        self._trace, self._recorder = trace, recorder
        span_s = max(recorder.arrival_ps or [0]) / PS_PER_S
        if self._speed is None:
            self._speed = max(span_s / _WATCHED_S, 0.0) or math.inf
        self._span_s = span_s
        self._start_s = time.monotonic()

    def planned(self, engine: EngineView, now_ps: int) -> None:
        """Wait for the engine's time to come, then look at it anew."""
        self._wait_for(now_ps)
        if time.monotonic() - self._drawn_s >= FRAME_S:
            self._snapshot = self._look(engine, now_ps)
            self._draw(now_ps / PS_PER_S)

    def stops(self) -> None:
        """Wait no more."""
        self._speed = math.inf

    # ---- parts -----------------------------------------------------------------------------

    def _wait_for(self, now_ps: int) -> None:
        """Let the clock on the screen run up to ``now_ps``."""
        while (speed := self._speed) is not None and speed < math.inf:
            shown_s = (time.monotonic() - self._start_s) * speed
            left_s = (now_ps / PS_PER_S - shown_s) / speed
            if left_s <= 0:
                return
            time.sleep(min(left_s, FRAME_S))
            if left_s > FRAME_S:
                self._draw(shown_s + FRAME_S * speed)

    def _look(self, engine: EngineView, now_ps: int) -> Snapshot:
        """What the panel shows; O(requests) in a few numpy operations."""
        recorder = self._recorder
        admitted = np.asarray(recorder.first_scheduled_ps) >= 0
        prompts = int(self._trace.prompt_tokens[admitted].sum())
        tokens = recorder.gaps.num + int((np.asarray(recorder.first_token_ps) >= 0).sum())
        self._tokens.append((now_ps, tokens))
        first_ps, first = self._tokens[0]
        past_s = (now_ps - first_ps) / PS_PER_S
        found = Snapshot.of(
            engine,
            self._pool,
            ended=recorder.num_ended,
            requests=len(self._trace),
            hit_percent=100 * int(np.asarray(recorder.hit_tokens).sum()) / prompts
            if prompts
            else None,
            tokens_per_s=(tokens - first) / past_s if past_s else None,
        )
        self._history.append(found.in_use)
        return found

    def _draw(self, clock_s: float) -> None:
        """Draw over what was drawn before."""
        if self._snapshot is None:
            return
        self._drawn_s = time.monotonic()
        size = shutil.get_terminal_size()
        about = printable(f"{self._trace.name}: {self._about}")
        lines = panel_lines(
            self._snapshot,
            Clock(about, clock_s, self._span_s, self._speed or math.inf),
            list(self._history),
            width=min(size.columns - 1, 79),
        )[: max(size.lines - 1, 1)]
        up = _UP.format(self._drawn) if self._drawn else ""
        sys.stdout.write(up + "".join(f"{shown(line)}{_REST_OF_LINE}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)

    def _wipe(self) -> None:
        """Take the panel from the screen."""
        if self._drawn:
            sys.stdout.write(_UP.format(self._drawn) + _CLEAR)
            self._drawn = 0
