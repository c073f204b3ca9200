"""What a leaper tells whoever listens: who enters, leaves and is served by each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kvsim.sim.leap_state import LeapState


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


class LeapListener(Protocol):
    """Sees what a leaper decides (see ``LeapLog``)."""

    def admitted(self, index: int, hit_tokens: int, known: int, *, resumed: bool) -> None:
        """See a request enter."""
        ...

    def preempted(self, index: int, lost_tokens: int, late_in: int | None) -> None:
        """See a victim; ``late_in`` is the step in flight that still brings it a token."""
        ...

    def called(
        self,
        leaper: LeapState,
        step: int,
        served: list[tuple[int, int, int, bool]],
        dropped: list[int],
    ) -> None:
        """See whom a call serves: (request, tokens, computed before, decodes), in order."""
        ...

    def flown(self, calls: Calls) -> None:
        """See a leap's calls once its length is settled."""
        ...

    def landed(
        self,
        finished: list[int],
        num_free: int,
        num_running: int,
        waiting: list[int],
        last_call_ps: int,
    ) -> None:
        """See the results applied at a boundary."""
        ...
