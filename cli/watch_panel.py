"""The panel of ``--watch`` as lines: clock, requests, a bar of the six states, rates, history."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.cli.colour import STATE_COLOURS, paint, wants_colour
from kvsim.cli.sparkline import ASCII, BLOCKS, can_print, sparkline
from kvsim.cli.table import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kvsim.sim.memory_shares import PoolShape
    from kvsim.sim.observer import EngineView

GLYPHS: Final = dict(zip(STATE_COLOURS, "█▓▒▚░·", strict=True))
ASCII_GLYPHS: Final = dict(zip(STATE_COLOURS, "#=-x+.", strict=True))
_LABEL: Final = 12
_GIB: Final = 2**30


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


def panel_lines(
    now: Snapshot,
    about: tuple[str, float, float, float],
    history: Iterable[float],
    *,
    width: int,
) -> list[str]:
    """Lines of at most ``width`` columns; always as many.

    ``about``: what runs, the clock and the span of the arrivals in seconds, and the speed.
    """
    head, clock_s, span_s, speed = about
    pace = (
        "as fast as it goes"
        if speed == float("inf")
        else f"{number(float(speed), 3)} times real time"
    )
    waits = f" (for {now.cause})" if now.waiting else ""
    rate = "-" if now.tokens_per_s is None else f"{now.tokens_per_s:,.0f}"
    hits = "-" if now.hit_percent is None else f"{now.hit_percent:.1f} %"
    rows = [
        ("clock", f"{clock_s:,.1f} s ({pace}); arrivals until {seconds(span_s)}; Ctrl-C ends"),
        ("requests", f"{now.ended:,} of {now.requests:,} ended, {now.running:,} running, "
         f"{now.waiting:,} waiting{waits}"),
        ("tokens", f"{rate} output/s; {hits} of prompt tokens hit"),
        ("gave way", f"{now.preemptions:,} preempted, {now.evicted_blocks:,} blocks evicted"),
    ]  # fmt: skip
    painted, glyphs = (
        wants_colour(sys.stdout),
        GLYPHS if can_print("".join(GLYPHS.values())) else ASCII_GLYPHS,
    )
    levels = BLOCKS if can_print(BLOCKS) else ASCII
    bar = state_bar(now.states, width - _LABEL, glyphs, painted=painted)
    values = list(history)[-(width - _LABEL) :]
    sketch = sparkline(values, 1.0, levels)
    return [
        head[:width],
        *(f"{label:<{_LABEL}}{text}"[:width] for label, text in rows),
        f"{'KV pool':<{_LABEL}}{bar}",
        *_legend(now, glyphs, width, painted=painted),
        f"{'KV in use':<{_LABEL}}{sketch}"[:width],
    ]


def state_bar(
    states: Mapping[str, float], width: int, glyphs: Mapping[str, str], *, painted: bool
) -> str:
    """The pool as ``width`` characters; edges are rounded, so the bar is always full."""
    edges, total = [0], 0.0
    for share in states.values():
        total += share
        edges.append(round(width * min(total, 1.0)))
    edges[-1] = width
    parts = []
    for place, name in enumerate(states):
        text = glyphs[name] * (edges[place + 1] - edges[place])
        parts.append(paint(text, STATE_COLOURS[name]) if painted else text)
    return "".join(parts)


def _legend(now: Snapshot, glyphs: Mapping[str, str], width: int, *, painted: bool) -> list[str]:
    """Two lines that name the states, with their shares."""
    names = list(now.states)
    lines = []
    for chosen in (names[:3], names[3:]):
        cells = [f"{glyphs[name]} {name:<8} {100 * now.states[name]:5.1f} %" for name in chosen]
        line = f"{'':<{_LABEL}}{'   '.join(cells)}"[:width]
        if painted:
            for name in chosen:
                line = line.replace(name, paint(name, STATE_COLOURS[name]))
        lines.append(line)
    return lines
