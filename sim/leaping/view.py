"""Values that listeners and observers may read from a leaper; this layer decides nothing."""

from __future__ import annotations

from kvsim.policies.allocators.base import Usage
from kvsim.sim.cost.equal_steps import steps_ps
from kvsim.sim.leaping.calls import LeapCalls
from kvsim.sim.leaping.events import Calls, Served


class LeapView(LeapCalls):
    """See the module docstring."""

    __slots__ = ()

    @property
    def cause(self) -> str:
        """Why the head of the queue has waited since the last call."""
        return self._cause

    @property
    def step_in_flight_end_ps(self) -> int:
        """End of the step whose results are not applied yet; 0 without one."""
        return 0 if self._step_in_flight is None else self._step_in_flight.end_ps

    @property
    def num_free(self) -> int:
        """Number of blocks that can be allocated, including cached ones."""
        return self._cache.num_free

    @property
    def num_running(self) -> int:
        """Number of running requests."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    def waiting_list(self) -> list[int]:
        """Return the requests in the queue; O(waiting)."""
        return list(self._waiting)

    def usage_now(self) -> Usage:
        """Return the memory by state after the last call, in slots."""
        cache, block_size = self._cache, self._block_size
        return Usage(
            blank=cache.num_blank * block_size,
            cached=cache.num_cached * block_size,
            empty=self._num_empty,
            duplicate=cache.num_duplicates * block_size,
            padding=0,
            shared=cache.num_shared * block_size,
        )

    # ---- the call, and the leap, that an event reports --------------------------------------

    def decoding(self) -> list[Served]:
        """Return the requests that decode in the present call, for a listener; O(running)."""
        v = self._v
        return [
            Served(request.index, 1, v - 1 - request.x, samples=True, decodes=True)
            for request in self._running.values()
            if request.decoding
        ]

    def first_step_ps(self) -> tuple[int, int]:
        """Return start and end of the first step of the reported leap, for a listener."""
        return self._leap_start_ps, self._leap_start_ps + self._first_ps

    def _spread_parts(self, steps: int) -> None:
        """Record the parts of the leap's steps over several windows."""
        self.recorder.spread_steps(
            self._leap_start_ps,
            steps,
            (self._first_ps, self._slope_ps),
            self._weights_ps,
            self._prefill_ps,
            self._overhead_ps,
            self._overhead_slope_ps,
        )

    def unroll(self, steps: int) -> Calls:
        """Return the leap call by call for a listener, before later calls take their blocks."""
        cache, v, lag = self._cache, self._v, self._lag
        start_ps, first_ps, slope_ps = self._leap_start_ps, self._first_ps, self._slope_ps
        times_ps, free, evicted = [], [], []
        already = cache.num_evicted - self._num_evicted_told
        taken = 0
        for j in range(steps):
            if j:
                demand = self._demand_of(v + j)
                already = max(taken + demand - cache.num_blank, 0) - max(taken - cache.num_blank, 0)
                taken += demand
            call_ps = start_ps + steps_ps(first_ps, slope_ps, j - lag) if j else self._leap_call_ps
            bounds = [start_ps + steps_ps(first_ps, slope_ps, j + n) for n in (0, 1)]
            times_ps.append((call_ps, bounds[0], bounds[1]))
            free.append(cache.num_free - taken)
            evicted.append(already)
        self._num_evicted_told = cache.num_evicted + max(taken - cache.num_blank, 0)
        return Calls(times_ps, free, evicted, len(self._running), list(self._waiting))
