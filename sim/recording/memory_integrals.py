"""Memory over time: exact integrals per window, and over the time in which requests waited.

Requests wait if the queue was not empty after the engine's last scheduling call.
"""

from __future__ import annotations

from typing import Final

from kvsim.sim.recording.waiting_clock import QueueClock

MEMORY: Final = ("blank", "cached", "empty", "duplicate", "never", "running", "window")
"""Integrals kept per window, in slot-ps unless said otherwise.

blank      free blocks without a key (``free``, or ``blocked`` while requests wait)
cached     unreferenced blocks with a key
empty      slots of allocated blocks without a computed token yet (``future`` + ``never``)
duplicate  slots of allocated blocks with a key that another allocated block has already
never      the part of ``empty`` that stays empty until the block is released
running    number of running sequences x ps
window     ps covered
"""

CONTIGUOUS: Final = ("padding", "hole")
"""Further integrals, in slot-ps.

padding    allocated slots that are round-up, or that had a token that was dropped
hole       the part of ``blank`` at times when it was enough in sum for the queue's head, but no
           run was large enough
"""

SHARED: Final = "shared"
"""Integral of the additional slots that sequences would need without sharing, in slot-ps."""

HOST: Final = "host"
"""Integral of the blocks in host memory, in block-ps; they are not part of the pool."""


class MemoryIntegrals(QueueClock):
    """See the module docstring.

    Attributes
    ----------
    while_waiting : dict of str to int
        The integrals, but for ``HOST``, over the time in which requests waited.
    peak_running : int
        Most sequences that ran at the same time, for any time above 0.
    end_ps : int
        Engine time of the last event.
    """

    def __init__(self, span_ps: int, max_flips: int | None) -> None:
        super().__init__(span_ps, max_flips)
        for name in (*MEMORY, *CONTIGUOUS, SHARED, HOST):
            self._column(name)
        self._blank, self._cached, self._empty, self._duplicate, _, self._running, self._covered = (
            self._columns[name] for name in MEMORY
        )
        self.while_waiting = dict.fromkeys((*MEMORY, *CONTIGUOUS, SHARED), 0)
        self.peak_running = 0
        self.end_ps = 0

    def interval(
        self,
        start_ps: int,
        end_ps: int,
        blank: int,
        cached: int,
        empty: int,
        duplicate: int,
        running: int,
    ) -> None:
        """Record memory in slots, ``running`` in sequences, over ``[start_ps, end_ps)``."""
        ps = end_ps - start_ps
        if ps <= 0:
            return
        self.end_ps = end_ps
        if running > self.peak_running:  # noqa: PLR1730 - max() takes three times as long
            self.peak_running = running
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        if self.requests_waiting:
            waiting = self.while_waiting
            waiting["blank"] += blank * ps
            waiting["cached"] += cached * ps
            waiting["empty"] += empty * ps
            waiting["duplicate"] += duplicate * ps
            waiting["running"] += running * ps
            waiting["window"] += ps
        width_ps = self.width_ps
        while start_ps < end_ps:
            window = start_ps // width_ps
            upto_ps = (window + 1) * width_ps
            upto_ps = min(upto_ps, end_ps)
            ps = upto_ps - start_ps
            self._blank[window] += blank * ps
            self._cached[window] += cached * ps
            self._empty[window] += empty * ps
            self._duplicate[window] += duplicate * ps
            self._running[window] += running * ps
            self._covered[window] += ps
            start_ps = upto_ps

    def contiguous(self, start_ps: int, end_ps: int, padding: int, hole: int) -> None:
        """Record padding and holes between runs in slots, constant over ``[start_ps, end_ps)``."""
        for name, slots in (("padding", padding), ("hole", hole)):
            if slots and end_ps > start_ps:
                self._spread(name, start_ps, end_ps, slots)
                if self.requests_waiting:
                    self.while_waiting[name] += slots * (end_ps - start_ps)

    def shared(self, start_ps: int, end_ps: int, slots: int) -> None:
        """Record the slots that sharing saves, constant over ``[start_ps, end_ps)``."""
        if slots and end_ps > start_ps:
            self._spread(SHARED, start_ps, end_ps, slots)
            if self.requests_waiting:
                self.while_waiting[SHARED] += slots * (end_ps - start_ps)

    def host(self, start_ps: int, end_ps: int, num_blocks: int) -> None:
        """Record the blocks in host memory, constant over ``[start_ps, end_ps)``."""
        if num_blocks and end_ps > start_ps:
            self._spread(HOST, start_ps, end_ps, num_blocks)

    def sums(
        self,
        end_ps: int,
        ps: int,
        blank_ps: int,
        cached_ps: int,
        empty_ps: int,
        duplicate: int,
        running: int,
    ) -> None:
        """Add integrals over ``ps`` up to ``end_ps``, all inside one window."""
        self.end_ps = end_ps
        if running > self.peak_running and ps:
            self.peak_running = running
        if self.requests_waiting:
            waiting = self.while_waiting
            waiting["blank"] += blank_ps
            waiting["cached"] += cached_ps
            waiting["empty"] += empty_ps
            waiting["duplicate"] += duplicate * ps
            waiting["running"] += running * ps
            waiting["window"] += ps
        window = (end_ps - 1) // self.width_ps
        self._blank[window] += blank_ps
        self._cached[window] += cached_ps
        self._empty[window] += empty_ps
        self._duplicate[window] += duplicate * ps
        self._running[window] += running * ps
        self._covered[window] += ps

    def never(self, start_ps: int, end_ps: int, slots: int) -> None:
        """Record ``slots`` of a block taken at ``start_ps`` that stayed empty until its release."""
        if slots and end_ps > start_ps:
            self._spread("never", start_ps, end_ps, slots)
            self.while_waiting["never"] += slots * self._waited_between(start_ps, end_ps)
