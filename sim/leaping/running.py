"""Running requests of a leaper: how they start to decode, leave, are preempted and finish.

Generated blocks get their keys at release, because no request can look them up before. There is one
exception. While another request in the engine, or the cache, holds the same ids, the request *must
publish*: its blocks get their keys step by step.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kvsim.sim.leaping.memory import LeapMemory
from kvsim.sim.leaping.state import NEVER, Running, StepInFlight

if TYPE_CHECKING:
    from kvsim.sim.leaping.cache.pieces import Path


def _by_order(request: Running) -> int:
    return request.order


class LeapRunning(LeapMemory):
    """See the module docstring."""

    __slots__ = ()

    def _make_running(self, index: int) -> Running:
        """Return a new object for the head of the queue, at its first lookup."""
        requests, paths = self._requests, self._paths
        if self._shares_outputs:
            self._watch(index)
        prompt = requests.prompt_tokens[index]
        path: Path = []
        if self.caching:
            covered = requests.num_covered(index)
            path = [
                (segment, min(paths.end[segment], covered))
                for segment in (self._path_of[index] if self._shares_outputs else paths.path(index))
                if paths.start[segment] < covered
            ]
            path.append((-1 - index, NEVER))
        return Running(index, prompt, path)

    def _join(self, request: Running) -> None:
        """Start to decode the request from the next call on."""
        x = self._v - request.num_computed_tokens
        request.x, request.decoding = x, True
        request.joined_at = request.num_computed_tokens
        self._batch += 1
        self._sum_x += x
        phase = x % self._block_size
        self._demand[phase] += 1
        self._demand[phase + self._block_size] += 1
        requests, index = self._requests, request.index
        left = requests.num_outputs(index) - (
            request.num_computed_tokens + 1 - requests.prompt_tokens[index]
        )
        heappush(self._last_steps, (self._v + left, request.order, request))
        if self._shares_outputs:
            self._start_growing(request)

    def _leave(self, request: Running) -> None:
        """Stop to decode the request; its number of computed tokens is known again."""
        x = request.x
        self._batch -= 1
        self._sum_x -= x
        phase = x % self._block_size
        self._demand[phase] -= 1
        self._demand[phase + self._block_size] -= 1
        request.decoding = False
        request.num_computed_tokens = self._v - 1 - x
        if self._shares_outputs:
            self._stop_growing(request)

    def _pop_ending(self) -> list[Running]:
        """Return the requests whose last token is sampled by the last call."""
        heap, last = self._last_steps, self._v - 1
        ending = []
        while heap and heap[0][0] <= last:
            _, order, request = heappop(heap)
            if request.order == order:
                ending.append(request)
        return ending

    def _give_up(self, request: Running, published: int, now_ps: int) -> None:
        """Release a request's blocks and record the slots that it never filled."""
        blocks = -(-request.num_computed_tokens // self._block_size)
        slots = blocks * self._block_size - request.num_computed_tokens
        self._num_empty -= slots
        if slots:
            first = (blocks - 1) * self._block_size
            taken_ps = request.last_block_ps
            if request.joined_at and first >= request.joined_at:
                taken_ps = self._call_ps(request.x + first + 1)
            self.recorder.never(taken_ps, now_ps, slots)
        self._cache.release(request.holding, blocks, published if self.caching else 0)

    def _preempt_for(self, demand: int, step_in_flight: StepInFlight | None) -> int:
        """Preempt from the end of the running list until the rest is served.

        Requests before the one without a block have taken all blocks that were free. Returns how
        many victims had a stop token in flight.
        """
        cache, phase = self._cache, (self._v - 1) % self._block_size
        num_dropped = 0
        while demand > cache.num_free:
            demand -= cache.num_free
            cache.take(cache.num_free)
            request = self._running.popitem()[1]
            if request.decoding:
                demand -= request.x % self._block_size == phase
                num_dropped += step_in_flight is not None and request in step_in_flight.ending
            self._preempt(request)
        cache.take(demand)
        return num_dropped

    def _preempt(self, request: Running) -> None:
        """Preempt a request: all its blocks are released, its sampled tokens stay."""
        now_ps = self._now_ps
        if request is self._partial:
            self._partial = None
        if request.decoding:
            self._leave(request)
        lost = request.num_computed_tokens
        if request.joined_at:
            request.num_tokens = lost + 1
            request.last_token_ps = self._last_end_ps
            published = max(request.joined_at // self._block_size, self._public(lost))
        else:
            published = lost // self._block_size
        if self._listener is not None:
            late_in = self._v - 1 if self._lag and request.joined_at else None
            self._listener.preempted(self._whole(), request.index, now_ps, lost, late_in)
        self._give_up(request, published, now_ps)
        self.recorder.preempted(request.index, now_ps, lost)
        request.order, request.preempted = -1, True
        request.num_computed_tokens = request.joined_at = 0
        self._waiting.appendleft(request.index)

    def _land(self, landed: StepInFlight, now_ps: int) -> None:
        """Remove the requests whose last token is here, and release their blocks."""
        for request in landed.ending:
            index = request.index
            if request.order < 0:  # preempted with its last token in flight
                self._waiting.remove(index)
                self.recorder.queue(now_ps, len(self._waiting))
            else:
                published = request.num_computed_tokens // self._block_size
                if request.decoding:
                    self._leave(request)
                    published = request.num_computed_tokens // self._block_size
                    if self._lag:
                        first = request.joined_at // self._block_size
                        published = max(first, self._public(request.num_computed_tokens))
                self._give_up(request, published, now_ps)
                del self._running[index]
            self.recorder.finished(index, now_ps, self._requests.num_outputs(index))
            del self._seen[index]
            if self._shares_outputs:
                self._unwatch(request)

    # ---- generated blocks that others may look up --------------------------------------------

    def _watch(self, index: int) -> None:
        """Note that a request may look up: growing requests on its path must publish in time."""
        users = self._users
        path = self._path_of[index] = self._paths.path(index)
        for segment in path:
            users[segment] = users.get(segment, 0) + 1
            for request in self._growing.get(segment, ()):
                self._contest(request)

    def _contest(self, request: Running) -> None:
        """From now on, set the keys of the request's blocks in time."""
        if not request.must_publish:
            request.must_publish = True
            self._contested[request.x % self._block_size].add(request)
            self._num_contested += 1
            self._newly_must_publish.append(request)

    def _unwatch(self, request: Running) -> None:
        users = self._users
        for segment in self._path_of.pop(request.index):
            if users[segment] == 1:
                del users[segment]
            else:
                users[segment] -= 1

    def _start_growing(self, request: Running) -> None:
        holding = request.holding
        for segment, leaves in holding.path[holding.place : -1]:
            if leaves <= holding.published:
                continue
            self._growing.setdefault(segment, set()).add(request)
            if self._users[segment] > 1 or self._cache.end_of(segment) > holding.published:
                self._contest(request)

    def _stop_growing(self, request: Running) -> None:
        if request.must_publish:
            request.must_publish = False
            self._contested[request.x % self._block_size].discard(request)
            self._num_contested -= 1
        for segment, _ in request.holding.path[:-1]:
            growing = self._growing.get(segment)
            if growing is not None:
                growing.discard(request)
                if not growing:
                    del self._growing[segment]

    def _publish_contested(self) -> None:
        """Set the keys of blocks filled up to this call, in the order of the running list."""
        due = self._contested[(self._v - self._lag) % self._block_size]
        if self._newly_must_publish:
            due = due.union(request for request in self._newly_must_publish if request.must_publish)
            self._newly_must_publish.clear()
        for request in sorted(due, key=_by_order) if len(due) > 1 else due:
            self._cache.publish(request.holding, self._public(self._v - request.x))

    def _next_publication(self) -> int:
        """Return the first call after this one that fills a block others may look up."""
        v = self._v + 1
        while not self._contested[(v - self._lag) % self._block_size]:
            v += 1
        return v
