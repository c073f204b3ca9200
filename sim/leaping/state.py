"""State of a leaper: sums over its decoding requests, and the current leap.

The leaper is one class in six layers, one file each: this state, memory over time (``memory.py``),
its running requests (``running.py``), a scheduling call (``calls.py``), values for listeners
(``view.py``), and the four methods of an engine (``leaper.py``, which explains the idea and the
invariants).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from kvsim.policies.batching import IterationLevel, MixedRunningFirst, NoEvict
from kvsim.policies.context import PolicyContext
from kvsim.policies.eviction import SEGMENT_SAFE, make_order
from kvsim.sim.cost.equal_steps import steps_ps
from kvsim.sim.engine.next_use import NextUse
from kvsim.sim.leaping.cache.block_cache import BlockCache
from kvsim.sim.leaping.cache.keyed_segments import KeyedSegments
from kvsim.sim.leaping.cache.pieces import Holding
from kvsim.sim.leaping.cache.segment_cache import SegmentCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.eviction import EvictionOrder
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.engine.requests import Requests
    from kvsim.sim.leaping.cache.pieces import Path
    from kvsim.sim.leaping.events import LeapListener
    from kvsim.sim.leaping.leaper import Leaper
    from kvsim.sim.recording.recorder import Recorder

NEVER = 1 << 62
TOKEN_BUDGETS: Final[dict[str, Callable[[SchedulerConfig], int]]] = {
    policy.name: policy.token_budget for policy in (MixedRunningFirst, IterationLevel, NoEvict)
}
"""Most tokens of a step, for each batching that the leaper supports."""


class Running:
    """One request of a leaper; ``order`` is its admission number, -1 while it waits."""

    __slots__ = (
        "decoding",
        "holding",
        "index",
        "joined_at",
        "last_block_ps",
        "last_token_ps",
        "must_publish",
        "num_computed_tokens",
        "num_tokens",
        "order",
        "preempted",
        "x",
    )

    def __init__(self, index: int, known: int, path: Path) -> None:
        self.index = index
        self.num_tokens = known
        self.num_computed_tokens = 0
        self.x = 0
        self.joined_at = 0  # computed tokens when it began to decode
        self.order = -1
        self.decoding = False
        self.preempted = False
        self.must_publish = False
        self.last_block_ps = 0
        self.last_token_ps = -1
        self.holding = Holding(path)


class StepInFlight:
    """A launched step without applied results; requests in ``ending`` then get their last token."""

    __slots__ = ("end_ps", "ending")

    def __init__(self, end_ps: int) -> None:
        self.end_ps = end_ps
        self.ending: list[Running] = []


class LeapState:
    """See the module docstring; the virtual counter and ``x`` are explained in ``leaper.py``."""

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
        "_growing",
        "_head_needs",
        "_inside",
        "_lag",
        "_last_end_ps",
        "_last_steps",
        "_leap_call_ps",
        "_leap_start_ps",
        "_leap_steps",
        "_listener",
        "_max_model_len",
        "_max_num_seqs",
        "_newly_must_publish",
        "_now_ps",
        "_num_admitted",
        "_num_blocks",
        "_num_contested",
        "_num_empty",
        "_num_evicted_told",
        "_num_tokens_counted",
        "_overhead_ps",
        "_overhead_slope_ps",
        "_partial",
        "_path_of",
        "_paths",
        "_prefill_ps",
        "_queue_noted",
        "_requests",
        "_reserve",
        "_running",
        "_seen",
        "_shares_outputs",
        "_since_ps",
        "_slope_ps",
        "_step_in_flight",
        "_sum_x",
        "_users",
        "_v",
        "_waiting",
        "_watermark",
        "_weights_ps",
        "caching",
        "num_audited",
        "recorder",
    )

    def __init__(
        self,
        config: SchedulerConfig,
        cost: StepCost,
        requests: Requests,
        recorder: Recorder,
        *,
        seed: int = 0,
        audit: bool = False,
        listener: LeapListener | None = None,
    ) -> None:
        self.num_audited = 0
        self.recorder = recorder
        self._audit = audit
        self._listener = listener
        self._num_evicted_told = 0
        self._cost = cost
        self._requests = requests
        self._read_rules(config, seed)
        self._waiting: deque[int] = deque()
        self._seen: dict[int, Running] = {}  # requests that have been the head of the queue
        self._running: dict[int, Running] = {}  # in order of admission
        self._partial: Running | None = None
        self._num_admitted = 0
        self._cause = "step"
        self._head_needs = 0
        self._queue_noted = False
        self._now_ps = 0

        # sums over decoding requests
        self._v = 0  # number of the next call
        self._batch = 0
        self._sum_x = 0
        self._demand = [0] * (2 * self._block_size)
        self._num_empty = 0  # slots of owned blocks without a computed token
        self._last_steps: list[tuple[int, int, Running]] = []

        # the step whose results are not applied yet, and the current leap
        self._step_in_flight: StepInFlight | None = None
        self._last_end_ps = 0
        self._leap_steps = self._leap_call_ps = self._leap_start_ps = 0
        self._first_ps = self._slope_ps = 0
        self._weights_ps = self._prefill_ps = self._overhead_ps = self._overhead_slope_ps = 0
        self._inside = True
        self._num_tokens_counted = 0
        self._since_ps = 0
        self._calls: list[tuple[int, int, int, int, int]] = []  # (V, call, start, first, slope)

        # generated blocks that others may look up
        self._users: dict[int, int] = {}
        self._path_of: dict[int, list[int]] = {}
        self._growing: dict[int, set[Running]] = {}
        self._contested: list[set[Running]] = [set() for _ in range(self._block_size)]
        self._num_contested = 0
        self._newly_must_publish: list[Running] = []

    def _make_cache(self, config: SchedulerConfig, seed: int) -> SegmentCache | BlockCache:
        """Return a cache of runs if the eviction order allows it, else of single blocks."""
        start, order_name, capacity = (
            self._paths.start,
            config.eviction.policy,
            config.eviction.capacity,
        )
        if not config.enable_prefix_caching or (order_name == "lru" and capacity is None):
            return SegmentCache(self._num_blocks, start)
        if order_name in SEGMENT_SAFE:
            return KeyedSegments(self._num_blocks, start, order_name, capacity)
        requests = self._requests
        context = PolicyContext(config, seed=seed, truth=requests, future=NextUse(requests))
        order: EvictionOrder[Block] = make_order(order_name, context)
        return BlockCache(self._num_blocks, config.block_size, start, order, capacity)

    def _read_rules(self, config: SchedulerConfig, seed: int) -> None:
        self._block_size = config.block_size
        self._budget = TOKEN_BUDGETS[config.batching.policy](config)
        self._max_num_seqs = config.max_num_seqs
        self._max_model_len = config.max_model_len
        self._chunked = config.enable_chunked_prefill
        self._reserve = config.batching.scheduler_reserve_full_isl
        self._watermark = int(config.batching.watermark * config.num_gpu_blocks)
        self._lag = 1 if config.async_scheduling else 0
        self._num_blocks = config.usable_blocks
        self._paths = self._requests.paths
        self._cache = self._make_cache(config, seed)
        prefix = self._requests.trace.prefix
        self.caching = config.enable_prefix_caching
        self._shares_outputs = self.caching and prefix is not None and prefix.covers_output

    def _whole(self) -> Leaper:
        """Return the whole leaper, as listeners get it; this class is one of its layers."""
        return cast("Leaper", self)

    def _boundary_ps(self, steps: int) -> int:
        """Return the time of the call after ``steps`` calls of this leap."""
        steps -= self._lag
        slope_ps = self._slope_ps * (steps * (steps - 1) // 2)
        return self._leap_start_ps + self._first_ps * steps + slope_ps

    def _call_ps(self, v: int) -> int:
        """Return the time of call ``v``."""
        calls = self._calls
        first_v, call_ps, start_ps, first_ps, slope_ps = calls[bisect_right(calls, (v, NEVER)) - 1]
        later = v - first_v
        if not later:
            return call_ps
        return start_ps + steps_ps(first_ps, slope_ps, later - self._lag)

    def _demand_of(self, v: int) -> int:
        """Return the blocks that decoding requests take in call ``v``."""
        return self._demand[(v - 1) % self._block_size]

    def _public(self, computed: int) -> int:
        """Return the blocks with a key of a decoding request; async sets keys a token later."""
        return (computed - self._lag) // self._block_size
