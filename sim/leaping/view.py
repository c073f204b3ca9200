"""What listeners and observers may ask a leaper: a layer of it that decides nothing."""

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
        """Why the queue's head waits since the last call."""
        return self._cause

    @property
    def flight_end_ps(self) -> int:
        """When the step ends whose results are still out; 0 where there is none."""
        return 0 if self._flight is None else self._flight.end_ps

    @property
    def num_free(self) -> int:
        """Blocks that can be taken, cached ones included."""
        return self._cache.num_free

    @property
    def num_running(self) -> int:
        """Requests in the engine."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    def waiting_list(self) -> list[int]:
        """Requests in the queue; O(waiting)."""
        return list(self._waiting)

    def usage_now(self) -> Usage:
        """What memory holds after the last call, in slots."""
        cache, block_size = self._cache, self._block_size
        return Usage(
            blank=cache.num_blank * block_size,
            cached=cache.num_cached * block_size,
            empty=self._num_empty,
            duplicate=cache.num_duplicates * block_size,
            padding=0,
            shared=cache.num_shared * block_size,
        )

    # ---- the call, and the leap, being told ------------------------------------------------

    def decoding(self) -> list[Served]:
        """Who decodes in the call being made, for a listener; O(running)."""
        v = self._v
        return [
            Served(member.index, 1, v - 1 - member.x, samples=True, decodes=True)
            for member in self._running.values()
            if member.decoding
        ]

    def first_step_ps(self) -> tuple[int, int]:
        """Start and end of the first step of the leap being told, for a listener."""
        return self._leap_start_ps, self._leap_start_ps + self._first_ps

    def _spread_parts(self, steps: int) -> None:
        """What the leap's steps go into, in several windows."""
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
        """Tell a listener the leap call by call, before the later ones take their blocks."""
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
