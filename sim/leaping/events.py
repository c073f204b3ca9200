"""What a leaper tells whoever listens: who arrives, enters, leaves and is served by name.

A leaper touches few members in an event, so what takes O(running) is not told but asked for
(:mod:`kvsim.sim.leaping.view`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.engine.observer import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.engine.observer import Observer
    from kvsim.sim.leaping.leaper import Leaper


class Served(NamedTuple):
    """A request's part in a call; ``samples``: the step brings it a token."""

    request: int
    num_tokens: int
    past: int
    samples: bool
    decodes: bool


class Calls(NamedTuple):
    """A leap unrolled for a listener, one entry a call.

    Times (call, start, end), free blocks after it and blocks it evicted; the running list's length
    and the queue hold for all of them.
    """

    times_ps: list[tuple[int, int, int]]
    free: list[int]
    evicted: list[int]
    num_running: int
    waiting: list[int]


class LeapListener:
    """Sees what a leaper decides; as it stands, it looks away."""

    def arrived(self, leaper: Leaper, index: int, now_ps: int) -> None:
        """See that a request is there."""

    def withdrawn(self, leaper: Leaper, index: int, now_ps: int, why: str) -> None:
        """See that a request is refused, and why."""

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
        """See a request enter."""

    def preempted(
        self, leaper: Leaper, index: int, now_ps: int, lost_tokens: int, late_in: int | None
    ) -> None:
        """See a victim; ``late_in`` is the step in flight that still brings it a token."""

    def called(self, leaper: Leaper, step: int, items: list[Served], dropped: list[int]) -> None:
        """See whom a call serves by name; who decodes besides, ``leaper.decoding()`` tells."""

    def planned(self, leaper: Leaper, now_ps: int) -> None:
        """See that all calls due are made; ``leaper.cause`` is why the queue's head waits."""

    def flown(self, leaper: Leaper, num_steps: int) -> None:
        """See a leap once its length is settled; ``leaper.unroll(num_steps)`` tells its calls."""

    def landed(self, leaper: Leaper, finished: list[int], now_ps: int, last_call_ps: int) -> None:
        """See the results applied at a boundary."""


class LeaperEvents(LeapListener):
    """Tells observers what a leaper does."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._items: list[Served] = []

    def arrived(self, leaper: Leaper, index: int, now_ps: int) -> None:
        """Tell of a request."""
        for observer in self._observers:
            observer.arrived(index, now_ps)

    def withdrawn(self, leaper: Leaper, index: int, now_ps: int, why: str) -> None:
        """Tell of a request that will not be served."""
        for observer in self._observers:
            observer.withdrawn(index, now_ps, why)

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
        """Tell of an entry."""
        for observer in self._observers:
            observer.entered(index, now_ps, hit_tokens)

    def preempted(
        self, leaper: Leaper, index: int, now_ps: int, lost_tokens: int, late_in: int | None
    ) -> None:
        """Tell of a victim; while it decodes, the step in flight serves it, too."""
        for observer in self._observers:
            if late_in is not None and leaper.flight_end_ps:
                end_ps = leaper.flight_end_ps
                observer.served(index, Chunk(now_ps, end_ps, 1, lost_tokens - 1, True, True))
            observer.preempted(index, now_ps, num_computed_tokens=lost_tokens, swapped=False)

    def called(self, leaper: Leaper, step: int, items: list[Served], dropped: list[int]) -> None:
        """Keep whom the call serves by name until the step's times are settled."""
        self._items = items

    def flown(self, leaper: Leaper, num_steps: int) -> None:
        """Tell of the chunks; a step with any is flown alone."""
        if self._items:
            start_ps, end_ps = leaper.first_step_ps()
            for observer in self._observers:
                for index, tokens, past, samples, decodes in self._items:
                    chunk = Chunk(start_ps, end_ps, tokens, past, samples, decodes)
                    observer.served(index, chunk)
            self._items = []

    def planned(self, leaper: Leaper, now_ps: int) -> None:
        """Tell that the calls are made."""
        for observer in self._observers:
            observer.planned(leaper, now_ps)

    def landed(self, leaper: Leaper, finished: list[int], now_ps: int, last_call_ps: int) -> None:
        """Tell who ended."""
        for observer in self._observers:
            for index in finished:
                observer.finished(index, now_ps, leaper.recorder.output_tokens[index])
