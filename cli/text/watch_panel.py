"""The panel of ``--watch`` as lines: clock, requests, a bar of the six states, rates, history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.cli.text.colour import SPARKLINE, STATE_COLOURS, as_label, joined, paint
from kvsim.cli.text.sparkline import ASCII, BLOCKS, can_print, sparkline
from kvsim.traces.common.text import closed, counted, cut, number, seconds, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvsim.sim.engine.observer import EngineView
    from kvsim.sim.pool.shape import PoolShape

GLYPHS: Final = dict(zip(STATE_COLOURS, "█▓▒▚░·", strict=True))
ASCII_GLYPHS: Final = dict(zip(STATE_COLOURS, "#=-x+.", strict=True))
_LABEL: Final = 12
_CELL: Final = 21
_GIB: Final = 2**30


class Clock(NamedTuple):
    """What runs, how far it is, how long the trace is, simulated seconds a second."""

    about: str
    now_s: float
    span_s: float
    speed: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one instant; ``states`` are shares of the pool that add up to 1.

    Whether an empty slot of a sequence will ever be filled is known only later: all of them count
    as ``reserved``, and holes as ``free``.
    """

    states: dict[str, float]
    pool_bytes: int
    running: int
    waiting: int
    cause: str
    ended: int
    requests: int
    preemptions: int
    evicted_blocks: int
    hit_percent: float | None
    tokens_per_s: float | None

    @property
    def in_use(self) -> float:
        """Share of the pool that running requests own."""
        return self.states["token"] + self.states["reserved"] + self.states["internal"]

    @staticmethod
    def of(
        engine: EngineView,
        pool: PoolShape,
        *,
        ended: int,
        requests: int,
        hit_percent: float | None,
        tokens_per_s: float | None,
    ) -> Snapshot:
        """Look at an engine; O(running) or less."""
        usage, recorder = engine.usage_now(), engine.recorder
        slots = (pool.num_blocks - pool.num_null_blocks) * pool.block_size
        slot_bytes = pool.block_bytes / pool.block_size
        owned = slots - usage.blank - usage.cached
        parts = {
            "token": owned - usage.empty - usage.padding,
            "reserved": usage.empty,
            "internal": usage.padding,
            "external": (pool.pool_bytes - slots * slot_bytes) / slot_bytes,
            "cached": usage.cached,
            "free": usage.blank,
        }
        return Snapshot(
            states={name: part * slot_bytes / pool.pool_bytes for name, part in parts.items()},
            pool_bytes=pool.pool_bytes,
            running=engine.num_running,
            waiting=engine.num_waiting,
            cause=engine.cause,
            ended=ended,
            requests=requests,
            preemptions=recorder.num_preemptions,
            evicted_blocks=recorder.num_evicted_blocks,
            hit_percent=hit_percent,
            tokens_per_s=tokens_per_s,
        )


def panel_lines(now: Snapshot, clock: Clock, history: Sequence[float], *, width: int) -> list[str]:
    """Lines of at most ``width`` columns; always as many."""
    glyphs = GLYPHS if can_print("".join(GLYPHS.values())) else ASCII_GLYPHS
    line = sparkline(history, 1.0, BLOCKS if can_print(BLOCKS) else ASCII)
    room = max(width - _LABEL, 0)
    rows = [(label, text[:room]) for label, text in _facts(now, clock)]
    rows.append(("KV pool", state_bar(now.states, room, glyphs)))
    rows.append(("KV in use", paint(line[-room:][:room], SPARKLINE)))
    lines = [joined(as_label(f"{label:<{_LABEL}}"[:width]), text) for label, text in rows]
    about = closed(cut(spread(clock.about), width))
    return [about, *lines[:-1], *_legend(now.states, width, glyphs), lines[-1]]


def _facts(now: Snapshot, clock: Clock) -> list[tuple[str, str]]:
    """Labelled sentences."""
    pace = f"{number(clock.speed, 3)} times real time"
    if clock.speed == math.inf:
        pace = "as fast as it goes"
    waits = f" (for {now.cause})" if now.waiting else ""
    rate = "-" if now.tokens_per_s is None else f"{now.tokens_per_s:,.0f}"
    hits = "-" if now.hit_percent is None else f"{now.hit_percent:.1f} %"
    spans = f"the trace spans {seconds(clock.span_s)}"
    ended = f"{now.ended:,} of {now.requests:,} ended"
    return [
        ("clock", f"{clock.now_s:,.1f} s ({pace}); {spans}; Ctrl-C ends"),
        ("requests", f"{ended}, {now.running:,} running, {now.waiting:,} waiting{waits}"),
        ("tokens", f"{rate} output/s; {hits} of prompt tokens hit"),
        (
            "gave way",
            f"{now.preemptions:,} preempted, {counted(now.evicted_blocks, 'block')} evicted",
        ),
    ]


def state_bar(states: Mapping[str, float], width: int, glyphs: Mapping[str, str]) -> str:
    """The pool as ``width`` characters; edges are rounded, so the bar is always full."""
    edges, total = [0], 0.0
    for share in states.values():
        total += share
        edges.append(round(width * min(total, 1.0)))
    edges[-1] = width
    parts = []
    for place, name in enumerate(states):
        text = glyphs[name] * (edges[place + 1] - edges[place])
        parts.append(paint(text, STATE_COLOURS[name]))
    return joined(*parts)


def _legend(states: Mapping[str, float], width: int, glyphs: Mapping[str, str]) -> list[str]:
    """Two lines that name the states, with their shares; as many as fit."""
    fitting = max((width - _LABEL) // _CELL, 0)
    lines: list[str] = []
    for chosen in (list(states)[:3], list(states)[3:]):
        cells = [" " * _LABEL]
        for name in chosen[:fitting]:
            head = paint(f"{glyphs[name]} {name:<8}", STATE_COLOURS[name])
            cells += [head, f" {100 * states[name]:5.1f} %   "]
        lines.append(joined(*cells).rstrip())
    return lines
