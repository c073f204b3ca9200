"""Members of a leaper: how they begin to decode, leave, are preempted and land.

Generated blocks get their keys at release, since nobody can look before; but while another
request in the engine, or the cache, holds the same ids (a *must_publish* member), step by step.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kvsim.sim.leaping.memory import LeapMemory
from kvsim.sim.leaping.state import NEVER, Member, StepInFlight

if TYPE_CHECKING:
    from kvsim.sim.leaping.cache.pieces import Path


def _by_order(member: Member) -> int:
    return member.order


class LeapMembers(LeapMemory):
    """See the module docstring."""

    __slots__ = ()

    def _member(self, index: int) -> Member:
        """The queue's head, looked at for the first time."""
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
        return Member(index, prompt, path)

    def _join(self, member: Member) -> None:
        """From the next call on the member decodes."""
        x = self._v - member.num_computed_tokens
        member.x, member.decoding = x, True
        member.joined_at = member.num_computed_tokens
        self._batch += 1
        self._sum_x += x
        phase = x % self._block_size
        self._demand[phase] += 1
        self._demand[phase + self._block_size] += 1
        requests, index = self._requests, member.index
        left = requests.num_outputs(index) - (
            member.num_computed_tokens + 1 - requests.prompt_tokens[index]
        )
        heappush(self._last_steps, (self._v + left, member.order, member))
        if self._shares_outputs:
            self._start_growing(member)

    def _leave(self, member: Member) -> None:
        """The member decodes no more; its computed tokens are known again."""
        x = member.x
        self._batch -= 1
        self._sum_x -= x
        phase = x % self._block_size
        self._demand[phase] -= 1
        self._demand[phase + self._block_size] -= 1
        member.decoding = False
        member.num_computed_tokens = self._v - 1 - x
        if self._shares_outputs:
            self._stop_growing(member)

    def _pop_ending(self) -> list[Member]:
        """Members whose last token is sampled by the last call."""
        heap, last = self._last_steps, self._v - 1
        ending = []
        while heap and heap[0][0] <= last:
            _, order, member = heappop(heap)
            if member.order == order:
                ending.append(member)
        return ending

    def _give_up(self, member: Member, published: int, now_ps: int) -> None:
        """Release a member's blocks and account for the slots it never filled."""
        blocks = -(-member.num_computed_tokens // self._block_size)
        slots = blocks * self._block_size - member.num_computed_tokens
        self._num_empty -= slots
        if slots:
            first = (blocks - 1) * self._block_size
            taken_ps = member.last_block_ps
            if member.joined_at and first >= member.joined_at:
                taken_ps = self._call_ps(member.x + first + 1)
            self.recorder.never(taken_ps, now_ps, slots)
        self._cache.release(member.holding, blocks, published if self.caching else 0)

    def _preempt_for(self, demand: int, flight: StepInFlight | None) -> int:
        """Preempt from the end of the running list until the rest is served.

        Whoever comes before the one that lacks a block has taken what was free by then. Returns
        how many victims had a stop token in flight.
        """
        cache, phase = self._cache, (self._v - 1) % self._block_size
        num_dropped = 0
        while demand > cache.num_free:
            demand -= cache.num_free
            cache.take(cache.num_free)
            member = self._running.popitem()[1]
            if member.decoding:
                demand -= member.x % self._block_size == phase
                num_dropped += flight is not None and member in flight.ending
            self._preempt(member)
        cache.take(demand)
        return num_dropped

    def _preempt(self, member: Member) -> None:
        """Put a member out: all its blocks go, its sampled tokens stay."""
        now_ps = self._now_ps
        if member is self._partial:
            self._partial = None
        if member.decoding:
            self._leave(member)
        lost = member.num_computed_tokens
        if member.joined_at:
            member.num_tokens = lost + 1
            member.last_token_ps = self._last_end_ps
            published = max(member.joined_at // self._block_size, self._public(lost))
        else:
            published = lost // self._block_size
        if self._listener is not None:
            late_in = self._v - 1 if self._lag and member.joined_at else None
            self._listener.preempted(self._told(), member.index, now_ps, lost, late_in)
        self._give_up(member, published, now_ps)
        self.recorder.preempted(member.index, now_ps, lost)
        member.order, member.preempted = -1, True
        member.num_computed_tokens = member.joined_at = 0
        self._waiting.appendleft(member.index)

    def _land(self, landed: StepInFlight, now_ps: int) -> None:
        """Members whose last token is here: they leave with their blocks."""
        for member in landed.ending:
            index = member.index
            if member.order < 0:  # preempted with its last token in flight
                self._waiting.remove(index)
                self.recorder.queue(now_ps, len(self._waiting))
            else:
                published = member.num_computed_tokens // self._block_size
                if member.decoding:
                    self._leave(member)
                    published = member.num_computed_tokens // self._block_size
                    if self._lag:
                        first = member.joined_at // self._block_size
                        published = max(first, self._public(member.num_computed_tokens))
                self._give_up(member, published, now_ps)
                del self._running[index]
            self.recorder.finished(index, now_ps, self._requests.num_outputs(index))
            del self._members[index]
            if self._shares_outputs:
                self._unwatch(member)

    # ---- generated blocks others may ask for -----------------------------------------------

    def _watch(self, index: int) -> None:
        """A request may look up: growing members on its path must publish on time from now on."""
        users = self._users
        path = self._path_of[index] = self._paths.path(index)
        for segment in path:
            users[segment] = users.get(segment, 0) + 1
            for member in self._growing.get(segment, ()):
                self._contest(member)

    def _contest(self, member: Member) -> None:
        """From now on the member's blocks get their keys on time."""
        if not member.must_publish:
            member.must_publish = True
            self._contested[member.x % self._block_size].add(member)
            self._num_contested += 1
            self._newly_must_publish.append(member)

    def _unwatch(self, member: Member) -> None:
        users = self._users
        for segment in self._path_of.pop(member.index):
            if users[segment] == 1:
                del users[segment]
            else:
                users[segment] -= 1

    def _start_growing(self, member: Member) -> None:
        holding = member.holding
        for segment, leaves in holding.path[holding.place : -1]:
            if leaves <= holding.published:
                continue
            self._growing.setdefault(segment, set()).add(member)
            if self._users[segment] > 1 or self._cache.end_of(segment) > holding.published:
                self._contest(member)

    def _stop_growing(self, member: Member) -> None:
        if member.must_publish:
            member.must_publish = False
            self._contested[member.x % self._block_size].discard(member)
            self._num_contested -= 1
        for segment, _ in member.holding.path[:-1]:
            growing = self._growing.get(segment)
            if growing is not None:
                growing.discard(member)
                if not growing:
                    del self._growing[segment]

    def _publish_contested(self) -> None:
        """Keys of blocks filled up to this call, in the order of the running list."""
        due = self._contested[(self._v - self._lag) % self._block_size]
        if self._newly_must_publish:
            due = due.union(member for member in self._newly_must_publish if member.must_publish)
            self._newly_must_publish.clear()
        for member in sorted(due, key=_by_order) if len(due) > 1 else due:
            self._cache.publish(member.holding, self._public(self._v - member.x))

    def _next_publication(self) -> int:
        """First call after this one that fills a block others may ask for."""
        v = self._v + 1
        while not self._contested[(v - self._lag) % self._block_size]:
            v += 1
        return v
