"""What a stepper decided, call by call, as plain values that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.engine.listener import ScheduleListener

if TYPE_CHECKING:
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Flight, Results


class Call(NamedTuple):
    """One scheduling call; requests by index, times in ps."""

    call_ps: int
    start_ps: int
    end_ps: int
    items: tuple[tuple[int, int, int], ...]
    admitted: tuple[tuple[int, int, bool], ...]
    preempted: tuple[tuple[int, int], ...]
    waits_for: str | None
    num_evicted: int


class Result(NamedTuple):
    """Results applied at a boundary: this is where lengths are revealed."""

    end_ps: int
    sampled: tuple[int, ...]
    finished: tuple[int, ...]
    late: tuple[int, ...]
    dropped: tuple[int, ...]


class DecisionLog(ScheduleListener):
    """Writes down every call and every result."""

    def __init__(self) -> None:
        self.records: list[Call | Result] = []

    def called(self, stepper: Stepper, flight: Flight) -> None:
        """Write what the call handed out."""
        step = flight.step
        self.records.append(
            Call(
                flight.call_ps,
                flight.start_ps,
                flight.end_ps,
                tuple((item.sequence.index, item.num_tokens, item.past) for item in flight.items),
                tuple((one.sequence.index, one.hit_tokens, one.resumed) for one in step.admitted),
                tuple((one.sequence.index, one.computed) for one in step.preempted),
                step.waits_for,
                stepper.state.allocator.num_evicted,
            )
        )

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Write what the results revealed."""
        flight, finished, late, dropped = results
        sampled = tuple(item.sequence.index for item in flight.items if item.samples)
        self.records.append(
            Result(flight.end_ps, sampled, tuple(finished), tuple(late), tuple(dropped))
        )
