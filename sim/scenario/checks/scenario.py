"""Keys of memory, queue, preemption, steps and cost that contradict each other or are unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.placement import Buddy, make_placement
from kvsim.policies.allocators.reservation import Max, Predicted
from kvsim.policies.eviction import needs_names
from kvsim.policies.predictor import NoPrediction
from kvsim.policies.predictor.base import no_prediction
from kvsim.sim.scenario.checks.batching import BATCHING, BATCHING_UNUSED, WHOLE_UP_TO_BUDGET
from kvsim.sim.scenario.checks.check import Check, has_windows
from kvsim.sim.scenario.checks.retention import RETENTION, RETENTION_UNUSED

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.checks.check import Checks
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.sim.scenario.tables import Cost

_CONTIGUOUS: Final = "allocator.kind = 'contiguous'"
_RADIX: Final = "allocator.prefix = 'radix'"
_RESERVE: Final = "batching.reserve_predicted_output"
_BATCHINGS_THAT_PREEMPT: Final = ("mixed-running-first", "iteration-level")
"""Built-in policies that make running requests give way, bring them back from the host, and keep
room for predicted answers.
"""


def _contiguous(scenario: Scenario) -> bool:
    return scenario.allocator.kind == "contiguous"


def _predicts(scenario: Scenario) -> bool:
    return scenario.predictor.kind != NoPrediction.name


def _predicted_reservation(scenario: Scenario) -> bool:
    return _contiguous(scenario) and scenario.allocator.reservation == Predicted.name


def _mode(scenario: Scenario) -> str:
    return f"preemption.mode = {scenario.preemption.mode!r}"


def _swaps(scenario: Scenario) -> bool:
    return scenario.preemption.mode != "recompute"


def _batching_brings_back(scenario: Scenario) -> bool:
    batching = scenario.batching
    if batching.policy == "prefill-first":
        return batching.prefill_rule == "watermark"
    return batching.policy in _BATCHINGS_THAT_PREEMPT


def _longest(scenario: Scenario, config: SchedulerConfig) -> tuple[int, int]:
    """Slots that a reservation of the model length takes, and the largest hole of the pool."""
    placement = make_placement(scenario.allocator.placement, config.usable_blocks)
    return placement.rounded(config.max_model_len), placement.largest_hole()


_PREDICTIONS: Final[Checks] = (
    Check(
        "queue predictor",
        lambda s, _: not _predicts(s) and s.queue.policy == "sjf",
        lambda _s, _: no_prediction("queue.policy = 'sjf'"),
    ),
    Check(
        "batching predictor",
        lambda s, _: not _predicts(s) and s.batching.reserve_predicted_output,
        lambda _s, _: no_prediction(_RESERVE),
    ),
    Check(
        "batching allocator",
        lambda s, _: s.batching.reserve_predicted_output and _contiguous(s),
        lambda _s, _: (
            f"{_CONTIGUOUS} reserves by allocator.reservation: {_RESERVE} belongs to block tables"
        ),
    ),
    Check(
        "batching",
        lambda s, c: s.batching.reserve_predicted_output and has_windows(c),
        lambda _s, _: (
            f"{_RESERVE} counts for full attention in all layers; this model has windows or "
            "several KV groups"
        ),
    ),
    Check(
        "batching",
        lambda s, _: (
            s.batching.reserve_predicted_output and s.batching.policy not in _BATCHINGS_THAT_PREEMPT
        ),
        lambda s, _: (
            f"{_RESERVE} is a rule of batching.policy = "
            f"{' and '.join(map(repr, _BATCHINGS_THAT_PREEMPT))}, not of {s.batching.policy!r}"
        ),
    ),
)

_PREFIX: Final[Checks] = (
    Check(
        "allocator",
        lambda s, _: _contiguous(s) and s.allocator.prefix in {"hash", "radix"},
        lambda s, _: (
            f"{_CONTIGUOUS} shares no prefixes: allocator.prefix cannot be {s.allocator.prefix!r}"
        ),
    ),
    Check(
        "allocator",
        lambda s, _: s.allocator.prefix == "radix" and s.allocator.kind != "paged",
        lambda s, _: f"{_RADIX} belongs to allocator.kind = 'paged', not {s.allocator.kind!r}",
    ),
    Check(
        "allocator",
        lambda s, c: s.allocator.prefix == "radix" and has_windows(c),
        lambda _s, _: (
            f"{_RADIX} keeps full attention in all layers; this model has windows or several "
            "KV groups"
        ),
    ),
    Check(
        "allocator eviction",
        lambda s, _: s.allocator.prefix == "radix" and needs_names(s.eviction.policy),
        lambda s, _: (
            f"eviction.policy = {s.eviction.policy!r} remembers blocks by name, which the nodes of "
            f"{_RADIX} do not have"
        ),
    ),
    Check(
        "allocator eviction",
        lambda s, _: s.allocator.prefix == "radix" and s.eviction.capacity is not None,
        lambda s, _: (
            f"eviction.capacity (={s.eviction.capacity:g}) counts blocks found by hash: "
            f"{_RADIX} keeps what the pool has room for"
        ),
    ),
)

_RESERVATIONS: Final[Checks] = (
    Check(
        "allocator predictor",
        lambda s, _: _predicted_reservation(s) and not _predicts(s),
        lambda _s, _: no_prediction("allocator.reservation = 'predicted'"),
    ),
    Check(
        "allocator batching",
        lambda s, _: _predicted_reservation(s) and s.batching.policy not in _BATCHINGS_THAT_PREEMPT,
        lambda s, _: (
            "allocator.reservation = 'predicted' may be outgrown: batching.policy = "
            f"{s.batching.policy!r} makes nobody give way, "
            f"{' and '.join(_BATCHINGS_THAT_PREEMPT)} do"
        ),
    ),
    Check(
        "allocator",
        lambda s, _: (
            _contiguous(s)
            and s.allocator.compaction != "none"
            and s.allocator.placement == Buddy.name
        ),
        lambda s, _: (
            f"allocator.compaction = {s.allocator.compaction!r} slides runs together, but buddies "
            "stay at multiples of their size: choose allocator.placement = 'first-fit' or "
            "'best-fit'"
        ),
    ),
    Check(
        "allocator engine",
        lambda s, _: _contiguous(s) and s.engine.num_gpu_blocks_override is not None,
        lambda _s, _: (
            f"{_CONTIGUOUS} has no blocks: size the pool with engine.kv_memory, not with "
            "engine.num_gpu_blocks_override"
        ),
    ),
    Check(
        "allocator batching",
        lambda s, _: _contiguous(s) and s.batching.watermark > 0,
        lambda s, _: (
            f"{_CONTIGUOUS} places whole reservations: batching.watermark "
            f"(={s.batching.watermark}) counts blocks"
        ),
    ),
    Check(
        "allocator",
        lambda s, c: _contiguous(s) and has_windows(c),
        lambda _s, _: (
            f"{_CONTIGUOUS} reserves for full attention in all layers; this model has windows or "
            "several KV groups"
        ),
    ),
)

_VICTIMS: Final[Checks] = (
    Check(
        "preemption predictor",
        lambda s, _: s.preemption.victim == "most-remaining" and not _predicts(s),
        lambda _s, _: (
            "preemption.victim = 'most-remaining' needs guesses of output lengths: "
            "predictor.kind = 'none' gives none, choose another predictor"
        ),
    ),
)

_SWAPPING: Final[Checks] = (
    Check(
        "preemption allocator",
        lambda s, _: _swaps(s) and s.allocator.kind != "paged",
        lambda s, _: (
            f"{_mode(s)} copies blocks to the host: allocator.kind = {s.allocator.kind!r} cannot, "
            "only 'paged' can"
        ),
    ),
    Check(
        "preemption allocator",
        lambda s, _: _swaps(s) and s.allocator.prefix == "radix",
        lambda s, _: f"{_mode(s)} copies blocks found by hash, not {_RADIX}",
    ),
    Check(
        "preemption batching",
        lambda s, _: _swaps(s) and not _batching_brings_back(s),
        lambda s, _: (
            f"{_mode(s)}: batching.policy = {s.batching.policy!r} brings nobody back from the "
            f"host, {', '.join(_BATCHINGS_THAT_PREEMPT)} and 'prefill-first' with "
            "batching.prefill_rule = 'watermark' do"
        ),
    ),
    Check(
        "preemption engine",
        lambda s, c: _swaps(s) and c.async_scheduling,
        lambda s, _: (
            f"{_mode(s)} is not defined with a step in flight: set engine.async_scheduling = false"
        ),
    ),
)

_SHARING: Final[Checks] = (
    Check(
        "allocator batching engine",
        lambda s, _: (
            not _contiguous(s)
            and s.batching.policy != "static"
            and s.allocator.prefix in {"hash", "radix"}
            and not s.engine.enable_prefix_caching
        ),
        lambda s, _: (
            f"allocator.prefix = {s.allocator.prefix!r} contradicts engine.enable_prefix_caching "
            "= false: set one of them"
        ),
    ),
)

_STEPS: Final[Checks] = (
    Check(
        "engine batching",
        lambda s, c: (
            not s.engine.enable_chunked_prefill
            and c.max_num_batched_tokens < c.max_model_len
            and s.batching.policy not in WHOLE_UP_TO_BUDGET
        ),
        lambda _, c: (
            "engine.enable_chunked_prefill = false needs engine.max_num_batched_tokens "
            f"(={c.max_num_batched_tokens}) >= engine.max_model_len (={c.max_model_len})"
        ),
    ),
    Check(
        "engine",
        lambda _, c: c.max_num_seqs > c.max_num_batched_tokens,
        lambda _, c: (
            f"engine.max_num_batched_tokens (={c.max_num_batched_tokens}) must be at least "
            f"engine.max_num_seqs (={c.max_num_seqs})"
        ),
    ),
)

_ROOM: Final[Checks] = (
    Check(
        "allocator engine",
        lambda s, c: (
            _contiguous(s)
            and s.allocator.reservation == Max.name
            and _longest(s, c)[0] > _longest(s, c)[1]
        ),
        lambda s, c: (
            f"allocator.reservation = 'max' takes {_longest(s, c)[0]:,} slots in one run, the "
            f"largest of the empty pool has {_longest(s, c)[1]:,}: lower engine.max_model_len "
            f"(={c.max_model_len:,})"
        ),
    ),
)

SCENARIO: Final[Checks] = (
    *_PREDICTIONS,
    *_PREFIX,
    *_RESERVATIONS,
    *_VICTIMS,
    *BATCHING,
    *_SWAPPING,
    *_SHARING,
    *RETENTION,
    *_STEPS,
    *_ROOM,
)
"""What no scheduler can be set up for, in the order in which it is told."""


def _copies(scenario: Scenario) -> bool:
    """Whether KV may be copied within the pool."""
    allocator, retention = scenario.allocator, scenario.retention
    if _contiguous(scenario):
        return allocator.reservation == Predicted.name or allocator.compaction != "none"
    return retention.kind != "model" and retention.compaction != "none"


def _by_hand(cost: Cost) -> dict[str, int | None]:
    """Terms of a linear cost by the names of their keys."""
    return {
        "base": cost.base_ps,
        "per_prefill_token": cost.per_prefill_token_ps,
        "per_decode_seq": cost.per_decode_seq_ps,
        "per_context_token": cost.per_context_token_ps,
        "per_copied_token": cost.per_copied_token_ps,
    }


def _misplaced(cost: Cost) -> str | None:
    """Name of the first term that another source than ``linear`` does not read."""
    given = (name for name, value in _by_hand(cost).items() if value is not None)
    return next(given, None)


COST: Final[Checks] = (
    Check(
        "cost",
        lambda s, _: s.cost.source == "linear" and not any(_by_hand(s.cost).values()),
        lambda _s, _: "cost.source = 'linear' needs cost.base or another term above 0",
    ),
    Check(
        "cost allocator retention",
        lambda s, _: (
            s.cost.source == "linear" and s.cost.per_copied_token_ps is None and _copies(s)
        ),
        lambda _s, _: (
            "KV may be copied within the pool: cost.source = 'linear' needs "
            "cost.per_copied_token (0 is allowed)"
        ),
    ),
    Check(
        "cost",
        lambda s, _: s.cost.source == "linear" and s.cost.attention_factor == "own",
        lambda _s, _: "cost.attention_factor = 'own' needs a profile, not source 'linear'",
    ),
    Check(
        "cost",
        lambda s, _: s.cost.source != "linear" and _misplaced(s.cost) is not None,
        lambda s, _: (
            f"cost.{_misplaced(s.cost)} belongs to cost.source = 'linear', not {s.cost.source!r}"
        ),
    ),
)
"""What no cost of a step can be made of."""

UNUSED: Final[Checks] = (
    Check(
        "allocator engine",
        lambda s, _: _contiguous(s) and s.engine.enable_prefix_caching,
        lambda _s, _: f"{_CONTIGUOUS} shares no prefixes: engine.enable_prefix_caching is unused",
    ),
    Check(
        "allocator engine",
        lambda s, _: _contiguous(s) and s.engine.block_size is not None,
        lambda _s, _: f"{_CONTIGUOUS} counts slots: engine.block_size is unused",
    ),
    Check(
        "preemption cost",
        lambda s, _: not _swaps(s) and bool(s.cost.swap_alpha_ps or s.cost.swap_bytes_per_s),
        lambda s, _: f"{_mode(s)} copies nothing: cost.swap_* is unused",
    ),
    Check(
        "eviction",
        lambda s, c: not c.enable_prefix_caching and s.eviction.policy != "lru",
        lambda _s, _: "nothing is cached: eviction.policy is unused",
    ),
    Check(
        "eviction",
        lambda s, c: not c.enable_prefix_caching and s.eviction.capacity is not None,
        lambda _s, _: "nothing is cached: eviction.capacity is unused",
    ),
    *BATCHING_UNUSED,
    *RETENTION_UNUSED,
)
"""Keys that nothing makes use of, each worth a note."""
