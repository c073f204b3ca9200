"""The leaper: an engine that computes many decode steps at once, bit-equal to the stepper.

Between two events each decoding sequence only gains one token a step, so the leaper does not touch
single sequences. A counter ``V`` numbers the scheduling calls. A decoding sequence has computed
``V - 1 - x`` tokens before call ``V``, and its ``x`` is constant. Three structures replace the
running list: sums of ``x``, a histogram of ``x`` modulo the block size (how many blocks each coming
call needs), and a heap of last steps. A leap ends when a sequence finishes, when memory runs out,
when a request arrives at an empty queue (``cut``), when the step cost changes its form, or when the
head of the queue starts to wait for another reason.

    call      V        V+1      V+2            V+k         sync: results of a step are applied
    step   |--V---|--V+1---|--V+2---| ... |             before the next call; async: the call for
    x: computed = V - x after call V                     step V is made when V - 2 ends

The leaper relies on these conditions, which ``leapable`` checks:

- There is one KV group with full attention, and the queue order is FCFS.
- There is no long-prefill threshold. So at most one sequence has a partly computed prompt, and it
  is the last one of the running list.
- The token budget is at least ``max_num_seqs``, so each step serves every running sequence.
- Freed blocks without a key go to the front of the free queue.

A head of the queue that does not fit cannot fit during a leap: free memory only falls, and cache
hits of the head do not grow.

Contiguous reservations do not grow in a decode; ``reserved.py`` handles them. Blocks of sampled
tokens get their keys when another request could hit them: at the release, or step by step (a leap
ends before each such step) while another request or the cache holds the same ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_to_reach
from kvsim.sim.leaping.state import TOKEN_BUDGETS, StepInFlight
from kvsim.sim.leaping.view import LeapView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.policies.scheduler_config import SchedulerConfig

MAX_CALLS_KEPT = 4096
MAX_BLOCK_SIZE = 65_536  # the demand of coming calls is kept by place in the block


def leapable(config: SchedulerConfig) -> tuple[bool, str]:
    """Whether the leaper's invariants hold, and the words that say so or name the broken one."""
    batching, queue = config.batching, config.queue.policy
    predictor, retention = config.predictor.kind, config.retention.kind
    if batching.policy not in TOKEN_BUDGETS:
        return False, f"batching {batching.policy} is stepped through"
    budget = TOKEN_BUDGETS[batching.policy](config)
    broken = [
        (queue != "fcfs", f'policy "{queue}" breaks the order of admission'),
        (predictor != "none", f'predictor "{predictor}" is asked at each admission'),
        (len(config.kv_groups) != 1, "several KV groups"),
        (
            any(group.sliding_window is not None for group in config.kv_groups),
            "a sliding window frees blocks in every step",
        ),
        (
            not config.keeps_everything,
            f"retention {retention} drops tokens in every step",
        ),
        (batching.long_prefill_token_threshold > 0, "a long-prefill threshold"),
        (
            config.enable_prefix_caching and config.allocator.freed_blocks_without_key != "front",
            "freed blocks without a key go to the back of the queue",
        ),
        (
            config.async_scheduling and not batching.keep_room_for_last_token,
            "async scheduling without room kept for the last token",
        ),
        (budget < config.max_num_seqs, "max_num_batched_tokens is below max_num_seqs"),
        (config.block_size > MAX_BLOCK_SIZE, f"blocks of more than {MAX_BLOCK_SIZE:,} tokens"),
        (
            not config.enable_chunked_prefill and budget < config.max_model_len,
            "a sequence that does not fit the budget in one piece",
        ),
    ]
    for holds, why in broken:
        if holds:
            return False, why
    return True, "FCFS, one full-attention group, at most one partial prefill"


class Leaper(LeapView):
    """One engine replica; ``add``, ``plan``, ``cut``, ``apply`` as in the stepper."""

    __slots__ = ()
    name = "leaper"

    def add(self, index: int, now_ps: int) -> bool:
        """Add a request that arrives; return False if it can never run (it is refused, counted)."""
        if self._listener is not None:
            self._listener.arrived(self, index, now_ps)
        if (reason := self._requests.refusal(index)) is not None:
            self.recorder.refused(index, reason)
            if self._listener is not None:
                self._listener.withdrawn(self, index, now_ps, reason)
            return False
        waiting = self._waiting
        waiting.append(index)
        self._queue_noted = True
        self.recorder.queue(now_ps, len(waiting))
        return True

    def plan(self, now_ps: int) -> int | None:
        """Make the scheduling calls that are due; return the next boundary, ``None`` when idle."""
        if self._since_ps < now_ps:  # it was idle
            self.recorder.idle(self._since_ps, now_ps)
            self._account(now_ps)
        self._now_ps = now_ps
        called = self._call(now_ps)
        if self._lag and called and self._step_in_flight is None:
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
        if self._listener is not None:
            self._listener.planned(self, now_ps)
        if called:
            return self._boundary_ps(self._leap_steps)
        return None if self._step_in_flight is None else self._step_in_flight.end_ps

    def cut(self, arrival_ps: int) -> int:
        """End the leap at the first boundary from ``arrival_ps`` on, if the request could enter.

        A request behind a waiting one changes nothing.
        """
        steps = self._leap_steps
        if steps > 1 and not self._waiting:
            elapsed_ps = arrival_ps - self._leap_start_ps
            reached = steps_to_reach(self._first_ps, self._slope_ps, elapsed_ps) + self._lag
            if reached < steps:
                self._leap_steps = steps = reached or 1
        if steps:
            return self._boundary_ps(steps)
        assert self._step_in_flight is not None, "an idle engine has no boundary"
        return self._step_in_flight.end_ps

    def apply(self, now_ps: int) -> Sequence[int]:
        """Commit the leap and apply the results of the oldest step in flight: last tokens, frees.

        Returns the requests that finished.
        """
        last_call_ps = self._now_ps
        if not self._leap_steps:
            self._account(now_ps)
            landed, self._step_in_flight = self._step_in_flight, None
        else:
            landed = self._fly(now_ps)
            if self._listener is not None:
                last_call_ps = self._call_ps(self._v - 1)
        finished: list[int] = []
        if landed is not None and landed.ending:
            finished = [request.index for request in landed.ending]
            self._land(landed, now_ps)
        if self._listener is not None:
            self._listener.landed(self, finished, now_ps, last_call_ps)
        self.recorder.num_evicted_blocks = self._cache.num_evicted
        return finished

    def take_refused(self) -> Sequence[int]:
        """Return no requests: with full attention, all that never fit are refused at arrival."""
        return ()

    def abort(self, index: int, now_ps: int) -> None:
        """Refuse: only the stepper runs requests with a timeout (``engine_choice.can_leap``)."""
        raise NotImplementedError(index, now_ps)

    # ---- leaps -----------------------------------------------------------------------------

    def _fly(self, now_ps: int) -> StepInFlight | None:
        """Commit the leap's calls; return the step in flight whose results are applied now."""
        steps, recorder = self._leap_steps, self.recorder
        first_ps, slope_ps, v = self._first_ps, self._slope_ps, self._v
        start_ps = self._leap_start_ps
        self._leap_steps = 0
        if not self._inside:
            recorder.num_steps_outside += steps
        calls = self._calls
        calls.append((v, self._leap_call_ps, start_ps, first_ps, slope_ps))
        if len(calls) > MAX_CALLS_KEPT + self._block_size:
            del calls[
                : -self._block_size - 8
            ]  # calls after a block's first use are never asked for
        if self._listener is not None:
            self._listener.flown(self, steps)
        if self._num_tokens_counted:
            recorder.gaps.add_run(start_ps, first_ps, slope_ps, steps, self._num_tokens_counted)
        pairs = steps * (steps - 1) // 2
        end_ps = start_ps + steps * first_ps + slope_ps * pairs
        in_one_window = first_ps and recorder.steps(
            start_ps,
            end_ps,
            steps,
            steps * self._weights_ps,
            self._prefill_ps,
            steps * self._overhead_ps + self._overhead_slope_ps * pairs,
        )
        if not in_one_window:
            self._spread_parts(steps)
        if steps == 1:
            self._account(now_ps)
        elif in_one_window and not self._lag:
            self._account_steps(v, steps, first_ps, slope_ps)
        else:
            self._account_leap(steps, now_ps)
        self._v = v = v + steps
        self._last_end_ps = end_ps
        landed = self._step_in_flight
        if self._lag:
            self._step_in_flight = StepInFlight(end_ps)
        else:
            heap = self._last_steps
            if not heap or heap[0][0] >= v:
                return None
            landed = StepInFlight(end_ps)
            landed.ending = self._pop_ending()
        return landed
