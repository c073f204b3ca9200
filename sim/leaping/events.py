"""Events of a leaper for listeners: arrivals, admissions, ends, and requests served singly.

A leaper touches few requests at an event. So values that cost O(running) are not part of an event;
a listener asks for them (:mod:`kvsim.sim.leaping.view`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.engine.observer import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.engine.observer import Observer
    from kvsim.sim.leaping.leaper import Leaper


class Served(NamedTuple):
    """A request's part in a call; ``samples``: the step gives it a token."""

    request: int
    num_tokens: int
    past: int
    samples: bool
    decodes: bool


class Calls(NamedTuple):
    """A leap unrolled for a listener, one entry a call.

    Each entry has the times (call, start, end), the free blocks after it and the blocks it evicted.
    The length of the running list and the queue are the same for all entries.
    """

    times_ps: list[tuple[int, int, int]]
    free: list[int]
    evicted: list[int]
    num_running: int
    waiting: list[int]


class LeapListener:
    """Base class of listeners: gets the decisions of a leaper, does nothing."""

    def arrived(self, leaper: Leaper, index: int, now_ps: int) -> None:
        """Note that a request has arrived."""

    def withdrawn(self, leaper: Leaper, index: int, now_ps: int, why: str) -> None:
        """Note that a request is refused, and why."""

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
        """Note that a request is admitted."""

    def preempted(
        self, leaper: Leaper, index: int, now_ps: int, lost_tokens: int, late_in: int | None
    ) -> None:
        """Note a victim; ``late_in`` is the step in flight that still gives it a token."""

    def called(self, leaper: Leaper, step: int, items: list[Served], dropped: list[int]) -> None:
        """Note the requests that a call serves singly; ``leaper.decoding()`` returns the others."""

    def planned(self, leaper: Leaper, now_ps: int) -> None:
        """Note that all calls due are made; ``leaper.cause`` is why the queue's head waits."""

    def flown(self, leaper: Leaper, num_steps: int) -> None:
        """Note a leap of known length; ``leaper.unroll(num_steps)`` returns its calls."""

    def landed(self, leaper: Leaper, finished: list[int], now_ps: int, last_call_ps: int) -> None:
        """Note that the results were applied at a boundary."""


class LeaperEvents(LeapListener):
    """Reports the events of a leaper to observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._items: list[Served] = []

    def arrived(self, leaper: Leaper, index: int, now_ps: int) -> None:
        """Report a request that arrives."""
        for observer in self._observers:
            observer.arrived(index, now_ps)

    def withdrawn(self, leaper: Leaper, index: int, now_ps: int, why: str) -> None:
        """Report a request that will not be served."""
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
        """Report an admission."""
        for observer in self._observers:
            observer.entered(index, now_ps, hit_tokens)

    def preempted(
        self, leaper: Leaper, index: int, now_ps: int, lost_tokens: int, late_in: int | None
    ) -> None:
        """Report a victim; if it decodes, the step in flight serves it too."""
        for observer in self._observers:
            if late_in is not None and leaper.step_in_flight_end_ps:
                end_ps = leaper.step_in_flight_end_ps
                observer.served(index, Chunk(now_ps, end_ps, 1, lost_tokens - 1, True, True))
            observer.preempted(index, now_ps, num_computed_tokens=lost_tokens, swapped=False)

    def called(self, leaper: Leaper, step: int, items: list[Served], dropped: list[int]) -> None:
        """Keep the requests that the call serves singly until the step's times are known."""
        self._items = items

    def flown(self, leaper: Leaper, num_steps: int) -> None:
        """Report the chunks; a step with chunks is never part of a longer leap."""
        if self._items:
            start_ps, end_ps = leaper.first_step_ps()
            for observer in self._observers:
                for index, tokens, past, samples, decodes in self._items:
                    chunk = Chunk(start_ps, end_ps, tokens, past, samples, decodes)
                    observer.served(index, chunk)
            self._items = []

    def planned(self, leaper: Leaper, now_ps: int) -> None:
        """Report that the calls are made."""
        for observer in self._observers:
            observer.planned(leaper, now_ps)

    def landed(self, leaper: Leaper, finished: list[int], now_ps: int, last_call_ps: int) -> None:
        """Report the requests that finished."""
        for observer in self._observers:
            for index in finished:
                observer.finished(index, now_ps, leaper.recorder.output_tokens[index])
