"""A stepper's schedule as a log: reads its state at every call and every boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsim.policies.allocators import PagedAllocator
from kvsim.sim.conformance.schedule_log import ScheduleLog
from kvsim.sim.engine.listener import ABORT, ScheduleListener

if TYPE_CHECKING:
    from kvsim.policies.allocators.block_pool import BlockPool
    from kvsim.sim.conformance.schedule_log import Watcher
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight
    from kvsim.traces.trace.trace import Trace


class StepperLog(ScheduleLog, ScheduleListener):
    """A stepper's schedule, with ``log_blocks`` physical block ids too."""

    def __init__(
        self, trace: Trace, watcher: Watcher | None = None, *, log_blocks: bool = False
    ) -> None:
        super().__init__(trace, watcher)
        self._log_blocks = log_blocks
        self._pool: BlockPool | None = None
        self._tables: dict[int, list[int]] = {}
        self._num_evicted = 0

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        """Note the request of a client that gave up."""
        self._tables.pop(index, None)
        if why == ABORT:
            self.add_abort(index, now_ps)

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        """Write the result of the call."""
        step, pool = step_in_flight.step, _paged(stepper).pool
        self.recorder, self._pool = stepper.recorder, pool
        self.caching = stepper.config.enable_prefix_caching
        record: dict[str, Any] = {
            "sched": [
                [item.sequence.name, item.num_tokens, item.past, "D" if item.decodes else "P"]
                for item in step_in_flight.items
            ],
            "admitted": [
                [a.sequence.name, a.hit_tokens, "resumed" if a.resumed else "new"]
                for a in step.admitted
            ],
            "preempted": [[p.sequence.name, p.num_computed_tokens] for p in step.preempted],
            "free_after_schedule": pool.num_free,
            "evicted": pool.num_evicted - self._num_evicted,
        }
        if self._log_blocks:
            record["alloc"] = self._allocations(stepper, step_in_flight)
            record["evicted_ids"] = pool.evicted_ids[self._num_evicted :]
        self._num_evicted = pool.num_evicted
        resumed = sum(a.sequence.num_tokens for a in step.admitted if a.resumed)
        self.add_call(
            (step_in_flight.call_ps, step_in_flight.start_ps, step_in_flight.end_ps),
            record,
            resumed,
        )

    def _allocations(self, stepper: Stepper, step_in_flight: StepInFlight) -> dict[str, Any]:
        """Return the blocks added to each table, one list for each of several groups."""
        for preemption in step_in_flight.step.preempted:
            self._tables.pop(preemption.sequence.index, None)
        groups = _paged(stepper).groups
        new: dict[str, Any] = {}
        for item in step_in_flight.items:
            index = item.sequence.index
            lengths = self._tables.setdefault(index, [0] * len(groups))
            added = []
            for number, group in enumerate(groups):
                table = group.tables[index]
                added.append([block.id for block in table[lengths[number] :]])
                lengths[number] = len(table)
            if any(added):
                new[item.sequence.name] = added[0] if len(added) == 1 else added
        return new

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Write the effects of the step's results."""
        state, pool = stepper.state, _paged(stepper).pool
        for index in results.finished:
            self._tables.pop(index, None)
        visible = sum(s.arrival_ps <= stepper.last_call_ps for s in state.waiting)
        self.add_result(
            {
                "finished": [stepper.name_of(index) for index in results.finished],
                "late": [stepper.name_of(index) for index in results.late],
                "dropped": [stepper.name_of(index) for index in results.dropped],
                "free_after_update": pool.num_free,
                "running": len(state.running),
                "waiting": visible,
                "cached_blocks": len(pool.index),
            }
        )

    def summary(self) -> dict[str, Any]:
        """Summary record, with the order of the free queue."""
        summary = super().summary()
        assert self._pool is not None, "the log never saw its engine"
        summary["free_queue_at_end"] = [block.id for block in self._pool.free_queue]
        return summary


def _paged(stepper: Stepper) -> PagedAllocator:
    """Block tables of the engine whose schedule is written."""
    allocator = stepper.state.allocator
    assert isinstance(allocator, PagedAllocator), "logs of schedules hold blocks"
    return allocator
