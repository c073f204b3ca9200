"""The optimisation: many decode steps at once, bit-equal to the stepper.

Between two events nothing happens to a single decoding sequence, so none is touched. A virtual
counter ``V`` numbers the scheduling calls; a member that decodes has computed ``V - 1 - x`` tokens
before call ``V``, with ``x`` fixed. Sums of ``x``, a histogram of ``x`` modulo the block size (the
demand for blocks of each coming call) and a heap of last steps replace the running list. A leap
ends where a member ends, memory runs out, an arrival finds an empty queue (``cut``), the step
cost's form changes, or the queue's head starts to wait for another reason.

    call      V        V+1      V+2            V+k         sync: results of a step are applied
    step   |--V---|--V+1---|--V+2---| ... |             before the next call; async: the call for
    x: computed = V - x after call V                     step V is made when V - 2 ends

Invariants relied on (``leapable``): one full-attention KV group, FCFS, no long-prefill threshold
(so at most one sequence is in mid-prefill, the last of the running list), at least as many tokens
in the budget as seats (so every running sequence is served), freed blocks without a key at the
front of the queue. A head that does not fit stays out until something is freed: free memory only
falls in a leap and the head's hits never fall slower than that.

Generated blocks get their keys when somebody could look: at release, or step by step (a leap ends
before each such step) while another request in the engine, or the cache, holds the same ids.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvsim.sim.leap import (
    blocks_taken,
    steps_ps,
    steps_to_reach,
    steps_within,
    weighted_blocks,
)
from kvsim.sim.segment_cache import NOTHING_FOUND, Holding, SegmentCache

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost import StepCost
    from kvsim.sim.recorder import Recorder
    from kvsim.sim.requests import Requests
    from kvsim.sim.segment_cache import Found, Path

NEVER = 1 << 62
MAX_CALLS_KEPT = 4096


def leapable(config: SchedulerConfig) -> tuple[bool, str]:
    """Whether the leaper's invariants hold, and the sentence that says so or names the one broken."""
    broken = [
        (config.policy != "fcfs", f'policy "{config.policy}" breaks the order of admission'),
        (len(config.kv_groups) != 1, "several KV groups"),
        (
            any(group.sliding_window is not None for group in config.kv_groups),
            "a sliding window frees blocks in every step",
        ),
        (config.long_prefill_token_threshold > 0, "a long-prefill threshold"),
        (
            config.enable_prefix_caching and config.freed_blocks_without_key != "front",
            "freed blocks without a key go to the back of the queue",
        ),
        (
            config.async_scheduling and not config.keep_room_for_last_token,
            "async scheduling without room kept for the last token",
        ),
        (config.max_num_batched_tokens < config.max_num_seqs, "fewer tokens than seats"),
    ]
    for holds, why in broken:
        if holds:
            return False, why
    return True, "FCFS, one full-attention group, at most one partial prefill"


class Member:
    """One request in the engine; ``order`` is its admission number, -1 while it waits."""

    __slots__ = (
        "blocks",
        "computed",
        "contested",
        "decoding",
        "holding",
        "index",
        "joined_at",
        "known",
        "last_block_ps",
        "last_token_ps",
        "order",
        "preempted",
        "x",
    )

    def __init__(self, index: int, known: int, path: Path) -> None:
        self.index = index
        self.known = known
        self.computed = 0
        self.blocks = 0
        self.x = 0
        self.joined_at = 0  # computed tokens when it began to decode
        self.order = -1
        self.decoding = False
        self.preempted = False
        self.contested = False
        self.last_block_ps = 0
        self.last_token_ps = -1
        self.holding = Holding(path)


def _by_order(member: Member) -> int:
    return member.order


class Flight:
    """A launched step whose results are not applied yet; ``ending`` get their last token then."""

    __slots__ = ("end_ps", "ending")

    def __init__(self, end_ps: int) -> None:
        self.end_ps = end_ps
        self.ending: list[Member] = []


class Calls(NamedTuple):
    """A leap unrolled for a listener, one entry a call: times (call, start, end), free blocks after
    it and blocks it evicted; the running list's length and the queue hold for all of them.
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
        self, leaper: Leaper, step: int, served: list[tuple[int, int, int, bool]], dropped: list[int]
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


class Leaper:
    """One engine replica; ``add``, ``plan``, ``cut``, ``apply`` as the stepper has them."""

    __slots__ = (
        "_audit",
        "_batch",
        "_block_size",
        "_budget",
        "_cache",
        "_calls",
        "_cause",
        "_chunked",
        "_contested",
        "_cost",
        "_demand",
        "_first_ps",
        "_flight",
        "_growers",
        "_head_needs",
        "_inside",
        "_lag",
        "_last_end_ps",
        "_last_steps",
        "_leap_call_ps",
        "_leap_start_ps",
        "_listener",
        "_leap_steps",
        "_max_model_len",
        "_members",
        "_newly_contested",
        "_now_ps",
        "_num_admitted",
        "_num_blocks",
        "_num_contested",
        "_num_empty",
        "_num_evicted_told",
        "_num_tokens_counted",
        "_partial",
        "_path_of",
        "_paths",
        "_queue_noted",
        "caching",
        "recorder",
        "_requests",
        "_reserve",
        "_running",
        "_seats",
        "_since_ps",
        "_slope_ps",
        "_sum_x",
        "_users",
        "_v",
        "_waiting",
        "_watched",
        "_watermark",
        "num_audited",
    )

    name = "leaper"

    def __init__(
        self,
        config: SchedulerConfig,
        cost: StepCost,
        requests: Requests,
        recorder: Recorder,
        *,
        audit: bool = False,
        listener: LeapListener | None = None,
    ) -> None:
        self.num_audited = 0
        self._listener = listener
        self._num_evicted_told = 0
        self._audit = audit
        self._cost = cost
        self._requests = requests
        self.recorder = recorder
        self._block_size = config.block_size
        self._budget = config.max_num_batched_tokens
        self._seats = config.max_num_seqs
        self._max_model_len = config.max_model_len
        self._chunked = config.enable_chunked_prefill
        self._reserve = config.scheduler_reserve_full_isl
        self._watermark = int(config.watermark * config.num_gpu_blocks)
        self.caching = config.enable_prefix_caching
        self._lag = 1 if config.async_scheduling else 0
        self._num_blocks = config.num_gpu_blocks - 1
        self._paths = requests.paths
        self._cache = SegmentCache(self._num_blocks, self._paths.start)

        self._waiting: deque[int] = deque()
        self._members: dict[int, Member] = {}  # those that have been the queue's head
        self._running: dict[int, Member] = {}  # in order of admission
        self._partial: Member | None = None
        self._num_admitted = 0
        self._cause = "step"
        self._head_needs = 0
        self._queue_noted = False
        self._now_ps = 0

        # decoding members, in sum
        self._v = 0  # number of the next call
        self._batch = 0
        self._sum_x = 0
        self._demand = [0] * (2 * self._block_size)
        self._num_empty = 0  # slots of owned blocks without a computed token
        self._last_steps: list[tuple[int, int, Member]] = []

        # the flight whose results are still out, and the leap being flown
        self._flight: Flight | None = None
        self._last_end_ps = 0
        self._leap_steps = 0
        self._leap_call_ps = 0
        self._leap_start_ps = 0
        self._first_ps = 0
        self._slope_ps = 0
        self._inside = True
        self._num_tokens_counted = 0
        self._since_ps = 0
        self._calls: list[tuple[int, int, int, int, int]] = []  # (V, call, start, first, slope)

        # generated blocks that others may ask for
        prefix = requests.trace.prefix
        self._watched = self.caching and prefix is not None and prefix.covers_output
        self._users: dict[int, int] = {}
        self._path_of: dict[int, list[int]] = {}
        self._growers: dict[int, set[Member]] = {}
        self._contested: list[set[Member]] = [set() for _ in range(self._block_size)]
        self._num_contested = 0
        self._newly_contested: list[Member] = []

    # ---- the four verbs --------------------------------------------------------------------

    def add(self, index: int, now_ps: int) -> bool:
        """A request arrives; False if it can never run (it is refused and counted)."""
        if self._requests.refused[index]:
            self.recorder.refused(index)
            return False
        waiting = self._waiting
        waiting.append(index)
        self._queue_noted = True
        self.recorder.queue(now_ps, len(waiting))
        if self._watched:
            self._watch(index)
        return True

    def plan(self, now_ps: int) -> int | None:
        """Scheduling calls due now; return the next boundary, ``None`` when idle."""
        if self._since_ps < now_ps:  # it was idle
            self._account(now_ps)
        self._now_ps = now_ps
        called = self._call(now_ps)
        if self._lag and called and self._flight is None:
            self._fly(now_ps)
            called = self._call(now_ps)
        waiting = len(self._waiting)
        if waiting or self._queue_noted:
            self.recorder.queue(now_ps, waiting, self._cause)
            self.recorder.set_waiting(now_ps, waiting > 0)
            self._queue_noted = waiting > 0
        if self._audit:
            self.check_invariants()
            self.num_audited += 1
        if called:
            return self._boundary_ps(self._leap_steps)
        return None if self._flight is None else self._flight.end_ps

    def cut(self, arrival_ps: int) -> int:
        """End the leap at the first boundary from ``arrival_ps`` on, if that request may enter.

        One behind a request that waits changes nothing.
        """
        steps = self._leap_steps
        if steps > 1 and not self._waiting:
            elapsed_ps = arrival_ps - self._leap_start_ps
            reached = steps_to_reach(self._first_ps, self._slope_ps, elapsed_ps) + self._lag
            if reached < steps:
                self._leap_steps = steps = reached or 1
        if steps:
            return self._boundary_ps(steps)
        assert self._flight is not None, "an idle engine has no boundary"
        return self._flight.end_ps

    def apply(self, now_ps: int) -> None:
        """Commit the leap; results of the oldest step in flight: last tokens, frees."""
        last_call_ps = self._now_ps
        if not self._leap_steps:
            self._account(now_ps)
            landed, self._flight = self._flight, None
        else:
            landed = self._fly(now_ps)
            if self._listener is not None:
                last_call_ps = self._call_ps(self._v - 1)
        if landed is not None and landed.ending:
            self._land(landed, now_ps)
        if self._listener is not None:
            finished = [] if landed is None else [member.index for member in landed.ending]
            free, running = self._cache.num_free, len(self._running)
            self._listener.landed(finished, free, running, list(self._waiting), last_call_ps)
        self.recorder.num_evicted_blocks = self._cache.num_evicted

    # ---- leaps -----------------------------------------------------------------------------

    def _boundary_ps(self, steps: int) -> int:
        """When the call after ``steps`` calls of this leap is made."""
        steps -= self._lag
        slope_ps = self._slope_ps * (steps * (steps - 1) // 2)
        return self._leap_start_ps + self._first_ps * steps + slope_ps

    def _fly(self, now_ps: int) -> Flight | None:
        """Commit the leap's calls; return the flight whose results are applied now."""
        steps, recorder = self._leap_steps, self.recorder
        first_ps, slope_ps, v = self._first_ps, self._slope_ps, self._v
        start_ps = self._leap_start_ps
        self._leap_steps = 0
        recorder.num_steps += steps
        if not self._inside:
            recorder.num_steps_outside += steps
        calls = self._calls
        calls.append((v, self._leap_call_ps, start_ps, first_ps, slope_ps))
        if len(calls) > MAX_CALLS_KEPT + self._block_size:
            del calls[: -self._block_size - 8]  # a block younger than its last one is never asked
        if self._listener is not None:
            self._listener.flown(self._unroll(steps))
        if self._num_tokens_counted:
            recorder.gaps.add_run(first_ps, slope_ps, steps, self._num_tokens_counted)
        if steps == 1:
            end_ps = start_ps + first_ps
            self._account(now_ps)
        else:
            end_ps = start_ps + steps * first_ps + slope_ps * (steps * (steps - 1) // 2)
            self._account_leap(steps, now_ps)
        self._v = v = v + steps
        self._last_end_ps = end_ps
        landed = self._flight
        if self._lag:
            self._flight = Flight(end_ps)
        else:
            heap = self._last_steps
            if not heap or heap[0][0] >= v:
                return None
            landed = Flight(end_ps)
            landed.ending = self._pop_ending()
        return landed

    def _unroll(self, steps: int) -> Calls:
        """Tell the leap call by call, before the later ones take their blocks."""
        cache, v, lag = self._cache, self._v, self._lag
        start_ps, first_ps, slope_ps = self._leap_start_ps, self._first_ps, self._slope_ps
        times_ps, free, evicted = [], [], []
        already = cache.num_evicted - self._num_evicted_told
        taken = 0
        for j in range(steps):
            if j:
                demand = self._demand[(v - 1 + j) % self._block_size]
                already = max(taken + demand - cache.num_blank, 0) - max(taken - cache.num_blank, 0)
                taken += demand
            call_ps = start_ps + steps_ps(first_ps, slope_ps, j - lag) if j else self._leap_call_ps
            bounds = [start_ps + steps_ps(first_ps, slope_ps, j + n) for n in (0, 1)]
            times_ps.append((call_ps, bounds[0], bounds[1]))
            free.append(cache.num_free - taken)
            evicted.append(already)
        self._num_evicted_told = cache.num_evicted + max(taken - cache.num_blank, 0)
        return Calls(times_ps, free, evicted, len(self._running), list(self._waiting))

    def _pop_ending(self) -> list[Member]:
        """Members whose last token is sampled by the last call."""
        heap, last = self._last_steps, self._v - 1
        ending = []
        while heap and heap[0][0] <= last:
            _, order, member = heappop(heap)
            if member.order == order:
                ending.append(member)
        return ending

    # ---- a scheduling call -----------------------------------------------------------------

    def _call(self, now_ps: int) -> bool:
        """Make call ``V``: take memory, admit, and set up the leap; False if it does nothing."""
        flight = self._flight
        num_dropped = 0
        if flight is not None:
            num_dropped = self._foresee_endings(flight)
        v, cache, block_size = self._v, self._cache, self._block_size
        self._cause = "step"
        demand = self._demand[(v - 1) % block_size]
        preempted = demand > cache.num_free
        if preempted:
            num_dropped -= self._preempt_for(demand, flight)
        elif demand:
            cache.take(demand)
        batch = self._batch
        if preempted:
            demand = self._demand[(v - 1) % block_size]
        self._num_empty += demand * block_size - batch
        if self._num_contested:
            self._publish_contested()
        context = batch * v - self._sum_x
        items: list[tuple[Member, int]] = []
        if self._partial is not None:
            preempted = not self._continue_partial(now_ps, items)
        if preempted:
            self._cause = "blocks"
        elif self._waiting:
            self._admit_waiting(now_ps, items)
        if not batch and not items and not preempted:
            return False
        self._leap_call_ps = now_ps
        self._leap_start_ps = now_ps if flight is None else flight.end_ps
        self._num_tokens_counted = batch - num_dropped
        if self._listener is not None:
            self._tell_call(items)
        if items or preempted:
            self._single_step(items, batch, context)
        else:
            self._leap(context)
        return True

    def _tell_call(self, items: list[tuple[Member, int]]) -> None:
        v, prompts = self._v, self._requests.prompt_tokens
        served = [
            (member.index, 1, v - 1 - member.x, True)
            for member in self._running.values()
            if member.decoding
        ]
        for member, tokens in items:
            past = member.computed - tokens
            completes = tokens == 1 and member.computed == member.known
            decodes = completes and past >= prompts[member.index]
            served.append((member.index, tokens, past, decodes))
        ending = self._flight.ending if self._flight is not None else []
        dropped = [member.index for member in ending if member.decoding]
        assert self._listener is not None
        self._listener.called(self, v, served, dropped)

    def _foresee_endings(self, flight: Flight) -> int:
        """Async: pass over members whose last token is in flight; return stop tokens in flight.

        A stop token cannot be foreseen: its member is served once more, for nothing.
        """
        for member in self._pop_ending():
            flight.ending.append(member)
            if self._requests.foreseen[member.index]:
                if member.contested:  # it still holds its blocks for this call
                    self._cache.publish(member.holding, self._public(self._v - 1 - member.x))
                self._leave(member)
        return sum(member.decoding for member in flight.ending)

    def _continue_partial(self, now_ps: int, items: list[tuple[Member, int]]) -> bool:
        """Give the sequence in mid-prefill its next chunk; False if it had to preempt itself."""
        member = self._partial
        assert member is not None
        self._partial = None
        tokens = min(member.known - member.computed, self._budget - self._batch)
        blocks = -(-(member.computed + tokens) // self._block_size) - member.blocks
        if blocks > self._cache.num_free:
            self._preempt(self._running.popitem()[1])
            return False
        self._serve(member, tokens, blocks, now_ps, items)
        return True

    def _admit_waiting(self, now_ps: int, items: list[tuple[Member, int]]) -> None:
        """Admit from the head of the queue until something refuses it."""
        waiting, running, cache = self._waiting, self._running, self._cache
        block_size = self._block_size
        budget = self._budget - self._batch - sum(tokens for _, tokens in items)
        while waiting:
            if len(running) >= self._seats:
                self._cause = "seats"
                return
            if budget <= 0:
                self._cause = "budget"
                return
            index = waiting[0]
            member = self._members.get(index)
            if member is None:
                member = self._members[index] = self._member(index)
            known = member.known
            found = NOTHING_FOUND
            if self.caching:
                found = cache.find(member.holding.path, (known - 1) // block_size)
            tokens = known - found.num_blocks * block_size
            if tokens > budget:
                if not self._chunked:
                    self._cause = "budget"
                    return
                tokens = budget
            blocks = -(-tokens // block_size)
            cause = self._refusal(found, blocks, known)
            if cause is not None:
                self._cause = cause
                return
            waiting.popleft()
            self._admit(member, found, now_ps)
            self._serve(member, tokens, blocks, now_ps, items)
            budget -= tokens
        self._cause = "step"

    def _refusal(self, found: Found, blocks: int, known: int) -> str | None:
        free = self._cache.num_free
        chunk = blocks + found.num_free
        self._head_needs = chunk
        if chunk > free:
            return "blocks"
        keep = self._watermark if self._running else 0
        whole = -(-min(known, self._max_model_len) // self._block_size) - found.num_blocks
        if chunk + keep > free or (self._reserve and whole + found.num_free + keep > free):
            return "admission rule"
        return None

    def _admit(self, member: Member, found: Found, now_ps: int) -> None:
        """Seat the queue's head with its hit."""
        index, hit_blocks = member.index, found.num_blocks
        if self.caching:
            self._cache.hold(member.holding, found)
        member.order = self._num_admitted
        self._num_admitted += 1
        self._running[index] = member
        member.computed = hit_tokens = hit_blocks * self._block_size
        member.blocks = hit_blocks
        recorder = self.recorder
        if self._listener is not None:
            resumed = member.preempted
            self._listener.admitted(index, hit_tokens, member.known, resumed=resumed)
        if member.preempted:
            recorder.admitted(index, now_ps, hit_tokens, resumed=True)
        else:
            recorder.first_scheduled_ps[index] = now_ps
            recorder.hit_tokens[index] = hit_tokens

    def _serve(
        self,
        member: Member,
        tokens: int,
        blocks: int,
        now_ps: int,
        items: list[tuple[Member, int]],
    ) -> None:
        """Give a member in prefill its chunk and blocks."""
        if blocks:
            self._cache.take(blocks)
            member.blocks += blocks
            member.last_block_ps = now_ps
        self._num_empty += blocks * self._block_size - tokens
        member.computed += tokens
        if self.caching:
            self._cache.publish(member.holding, member.computed // self._block_size)
        if member.computed < member.known:
            self._partial = member
        items.append((member, tokens))

    def _single_step(self, items: list[tuple[Member, int]], batch: int, context: int) -> None:
        """Cost a step with prefill in it; those whose known tokens are computed sample."""
        prefills = []
        prompts = self._requests.prompt_tokens
        for member, tokens in items:
            past = member.computed - tokens
            if tokens == 1 and member.computed == member.known and past >= prompts[member.index]:
                batch += 1
                context += member.computed
            else:
                prefills.append((tokens, past))
        self._first_ps, self._inside = self._cost.step(prefills, batch, context)
        self._slope_ps, self._leap_steps = 0, 1
        end_ps = self._leap_start_ps + self._first_ps
        for member, _ in items:
            if member.computed == member.known:
                self._sample(member, end_ps)
                self._join(member)

    def _sample(self, member: Member, end_ps: int) -> None:
        """Its first token, or the first after a preemption, comes at the end of this step."""
        recorder, index = self.recorder, member.index
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = end_ps
        else:
            recorder.stall(index, end_ps - member.last_token_ps)

    def _leap(self, context: int) -> None:
        """Nothing but decodes: how many calls like this one follow."""
        v, batch, flight = self._v, self._batch, self._flight
        first_ps, slope_ps, valid, self._inside = self._cost.decode_run(batch, context)
        self._first_ps, self._slope_ps = first_ps, slope_ps
        steps = 1
        if flight is None or not flight.ending:
            steps = self._last_steps[0][0] - v + 1
            if valid is not None and valid < steps:
                steps = valid
            if steps > 1 and self._num_contested:
                steps = min(steps, self._next_publication() - v)
            if steps > 1:
                steps = self._within_memory(steps)
        self._leap_steps = steps

    def _within_memory(self, steps: int) -> int:
        """Cut a leap where blocks run out, or where the head starts to lack even its chunk."""
        blocks = self._cache.num_free
        if self._cause == "admission rule":
            blocks -= self._head_needs
        if blocks // self._batch * self._block_size >= steps - 1:
            return steps
        phase = self._v % self._block_size
        return min(steps, 1 + steps_within(self._demand, phase, self._batch, blocks))

    # ---- members ---------------------------------------------------------------------------

    def _member(self, index: int) -> Member:
        requests, paths = self._requests, self._paths
        prompt = requests.prompt_tokens[index]
        path: Path = []
        if self.caching:
            covered = requests.num_covered(index)
            path = [
                (segment, min(paths.end[segment], covered))
                for segment in (self._path_of[index] if self._watched else paths.path(index))
                if paths.start[segment] < covered
            ]
            path.append((-1 - index, NEVER))
        return Member(index, prompt, path)

    def _join(self, member: Member) -> None:
        """From the next call on the member decodes."""
        x = self._v - member.computed
        member.x, member.decoding = x, True
        member.joined_at = member.computed
        self._batch += 1
        self._sum_x += x
        phase = x % self._block_size
        self._demand[phase] += 1
        self._demand[phase + self._block_size] += 1
        requests, index = self._requests, member.index
        left = requests.num_outputs(index) - (member.computed + 1 - requests.prompt_tokens[index])
        heappush(self._last_steps, (self._v + left, member.order, member))
        if self._watched:
            self._start_growing(member)

    def _leave(self, member: Member) -> None:
        """The member decodes no more; its computed tokens and blocks are known again."""
        x = member.x
        self._batch -= 1
        self._sum_x -= x
        phase = x % self._block_size
        self._demand[phase] -= 1
        self._demand[phase + self._block_size] -= 1
        member.decoding = False
        member.computed = self._v - 1 - x
        member.blocks = -(-member.computed // self._block_size)
        if self._watched:
            self._stop_growing(member)

    def _give_up(self, member: Member, published: int, now_ps: int) -> None:
        """Release a member's blocks and account for the slots it never filled."""
        slots = member.blocks * self._block_size - member.computed
        self._num_empty -= slots
        if slots:
            first = (member.blocks - 1) * self._block_size
            taken_ps = member.last_block_ps
            if member.joined_at and first >= member.joined_at:
                taken_ps = self._call_ps(member.x + first + 1)
            self.recorder.never(taken_ps, now_ps, slots)
        self._cache.release(member.holding, member.blocks, published if self.caching else 0)

    def _preempt_for(self, demand: int, flight: Flight | None) -> int:
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
        lost = member.computed
        if member.joined_at:
            member.known = lost + 1
            member.last_token_ps = self._last_end_ps
            published = max(member.joined_at // self._block_size, self._public(lost))
        else:
            published = lost // self._block_size
        if self._listener is not None:
            late_in = self._v - 1 if self._lag and member.joined_at else None
            self._listener.preempted(member.index, lost, late_in)
        self._give_up(member, published, now_ps)
        self.recorder.preempted(member.index, lost)
        member.order, member.preempted = -1, True
        member.computed = member.blocks = member.joined_at = 0
        self._waiting.appendleft(member.index)

    def _public(self, computed: int) -> int:
        """Blocks with a key while a member decodes: async ones get theirs a token later."""
        return (computed - self._lag) // self._block_size

    def _land(self, landed: Flight, now_ps: int) -> None:
        """Members whose last token is here: they leave with their blocks."""
        for member in landed.ending:
            index = member.index
            if member.order < 0:  # preempted with its last token in flight
                self._waiting.remove(index)
                self.recorder.queue(now_ps, len(self._waiting))
            else:
                published = member.computed // self._block_size
                if member.decoding:
                    self._leave(member)
                    published = member.computed // self._block_size
                    if self._lag:
                        first = member.joined_at // self._block_size
                        published = max(first, self._public(member.computed))
                self._give_up(member, published, now_ps)
                del self._running[index]
            self.recorder.finished(index, now_ps, self._requests.num_outputs(index))
            del self._members[index]
            if self._watched:
                self._unwatch(member)

    def _call_ps(self, v: int) -> int:
        """When call ``v`` was made."""
        calls = self._calls
        first_v, call_ps, start_ps, first_ps, slope_ps = calls[
            bisect_right(calls, (v, NEVER)) - 1
        ]
        later = v - first_v
        if not later:
            return call_ps
        return start_ps + steps_ps(first_ps, slope_ps, later - self._lag)

    # ---- generated blocks others may ask for -----------------------------------------------

    def _watch(self, index: int) -> None:
        """A request entered: growing members on its path must publish on time from now on."""
        users = self._users
        path = self._path_of[index] = self._paths.path(index)
        for segment in path:
            users[segment] = users.get(segment, 0) + 1
            for member in self._growers.get(segment, ()):
                self._contest(member)

    def _contest(self, member: Member) -> None:
        """From now on the member's blocks get their keys on time."""
        if not member.contested:
            member.contested = True
            self._contested[member.x % self._block_size].add(member)
            self._num_contested += 1
            self._newly_contested.append(member)

    def _unwatch(self, member: Member) -> None:
        users = self._users
        for segment in self._path_of.pop(member.index):
            if users[segment] == 1:
                del users[segment]
            else:
                users[segment] -= 1

    def _start_growing(self, member: Member) -> None:
        holding, segments = member.holding, self._cache.segments
        for segment, leaves in holding.path[holding.place : -1]:
            if leaves <= holding.published:
                continue
            self._growers.setdefault(segment, set()).add(member)
            present = segments.get(segment)
            if self._users[segment] > 1 or (present and present[-1].high > holding.published):
                self._contest(member)

    def _stop_growing(self, member: Member) -> None:
        if member.contested:
            member.contested = False
            self._contested[member.x % self._block_size].discard(member)
            self._num_contested -= 1
        for segment, _ in member.holding.path[:-1]:
            growers = self._growers.get(segment)
            if growers is not None:
                growers.discard(member)
                if not growers:
                    del self._growers[segment]

    def _publish_contested(self) -> None:
        """Keys of blocks filled up to this call, in the order of the running list."""
        due = self._contested[(self._v - self._lag) % self._block_size]
        if self._newly_contested:
            due = due.union(member for member in self._newly_contested if member.contested)
            self._newly_contested.clear()
        for member in sorted(due, key=_by_order) if len(due) > 1 else due:
            self._cache.publish(member.holding, self._public(self._v - member.x))

    def _next_publication(self) -> int:
        """First call after this one that fills a block others may ask for."""
        v = self._v + 1
        while not self._contested[(v - self._lag) % self._block_size]:
            v += 1
        return v

    # ---- memory ----------------------------------------------------------------------------

    def _account(self, now_ps: int) -> None:
        """Memory was constant since the last event."""
        cache, block_size = self._cache, self._block_size
        self.recorder.interval(
            self._since_ps,
            now_ps,
            cache.num_blank * block_size,
            cache.num_cached * block_size,
            self._num_empty,
            cache.num_duplicates * block_size,
            len(self._running),
        )
        self._since_ps = now_ps

    def _account_leap(self, steps: int, now_ps: int) -> None:
        """Memory over the leap's intervals; the calls after the first take their blocks here."""
        recorder, slope_ps = self.recorder, self._slope_ps
        v, first_ps = self._v, self._first_ps
        if self._lag:  # until the step in flight ends, memory is as after the first call
            self._account(self._leap_start_ps)
            v, steps = v + 1, steps - 1
            self._advance(v, 1)
        since_ps = self._since_ps
        while recorder.crosses(since_ps, now_ps):
            span_ps = recorder.window_end(since_ps) - since_ps
            whole = steps_to_reach(first_ps, slope_ps, span_ps + 1) - 1
            if whole:
                self._account_steps(v, whole, first_ps, slope_ps)
                self._advance(v + whole, 1)
            # one step across the edge
            self._account(self._since_ps + first_ps + slope_ps * whole)
            whole += 1
            v, steps, first_ps = v + whole, steps - whole, first_ps + slope_ps * whole
            since_ps = self._since_ps
            if steps:
                self._advance(v, 1)
        if steps:
            self._account_steps(v, steps, first_ps, slope_ps)
        assert self._since_ps == now_ps, "a leap's steps and its boundary differ"

    def _advance(self, v: int, calls: int) -> None:
        """Calls ``v .. v + calls - 1`` take their blocks."""
        phase = (v - 1) % self._block_size
        blocks = blocks_taken(self._demand, phase, self._batch, calls)
        self._cache.take(blocks)
        self._num_empty += blocks * self._block_size - self._batch * calls

    def _account_steps(self, v: int, steps: int, first_ps: int, slope_ps: int) -> None:
        """Integrals over ``steps`` intervals inside one window; the first is after call ``v``.

        The calls between them take their blocks: afterwards memory is as after the last call.
        """
        cache, block_size, batch = self._cache, self._block_size, self._batch
        demand, phase, empty = self._demand, v % block_size, self._num_empty
        pairs = steps * (steps - 1) // 2
        ps = steps * first_ps + slope_ps * pairs
        later_ps = first_ps + slope_ps
        taken_ps, last = weighted_blocks(demand, phase, steps - 1, later_ps, slope_ps)
        blank, cached = cache.num_blank, cache.num_cached
        if last <= blank:
            blank_ps, cached_ps = blank * ps - taken_ps, cached * ps
        elif not blank:
            blank_ps, cached_ps = 0, cached * ps - taken_ps
        else:
            from_blank = steps_within(demand, phase, batch, blank)
            blank_taken_ps, _ = weighted_blocks(demand, phase, from_blank, later_ps, slope_ps)
            part_ps = steps_ps(first_ps, slope_ps, from_blank + 1)
            blank_ps = blank * part_ps - blank_taken_ps
            cached_ps = cached * ps + blank * (ps - part_ps) - (taken_ps - blank_taken_ps)
        computed_ps = first_ps * pairs + slope_ps * (pairs * (2 * steps - 1) // 3)
        self._since_ps += ps
        self.recorder.sums(
            self._since_ps,
            ps,
            blank_ps * block_size,
            cached_ps * block_size,
            empty * ps + taken_ps * block_size - computed_ps * batch,
            cache.num_duplicates * block_size,
            len(self._running),
        )
        if last:
            cache.take(last)
        self._num_empty = empty + last * block_size - batch * (steps - 1)

    def check_invariants(self) -> None:
        """Verify the sums against the members themselves; O(running + pieces)."""
        decoding = [member for member in self._running.values() if member.decoding]
        assert len(decoding) == self._batch, "batch is off"
        assert sum(member.x for member in decoding) == self._sum_x, "sum of x is off"
        counts = [0] * self._block_size
        for member in decoding:
            counts[member.x % self._block_size] += 1
        assert counts * 2 == self._demand, "phase histogram is off"
        assert len(self._running) <= self._seats, "more sequences than seats"
        empty = unkeyed = 0
        for member in self._running.values():
            computed = member.computed
            if member.decoding:
                computed = self._v - member.x - (not self._leap_steps)
            blocks = -(-computed // self._block_size)
            empty += blocks * self._block_size - computed
            unkeyed += blocks - member.holding.published
        assert empty == self._num_empty, "empty slots are off"
        self._cache.check_invariants(self._num_blocks, unkeyed)
