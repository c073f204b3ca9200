"""Combinations of a scenario's keys that make no sense, each refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators.placement import Buddy, make_placement
from kvsim.policies.allocators.reservation import Max, Predicted
from kvsim.policies.eviction import needs_names
from kvsim.policies.predictor import NoPrediction
from kvsim.policies.predictor.base import require_prediction

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
    from kvsim.policies.tables import Allocator
    from kvsim.sim.scenario.scenario import Scenario

_CONTIGUOUS = "allocator.kind = 'contiguous'"
_RADIX = "allocator.prefix = 'radix'"
_PREDICTED_ROOM = ("mixed-running-first", "iteration-level")
_BATCHINGS_THAT_PREEMPT = ("mixed-running-first", "iteration-level")
_BATCHINGS_THAT_SWAP = ("mixed-running-first", "iteration-level")


def check_combination(scenario: Scenario, groups: tuple[KVGroup, ...]) -> None:
    """Refuse keys that contradict the allocator or the batching; ``groups``: the model's KV.

    Raises
    ------
    ValueError
        With the two keys that contradict each other.
    """
    engine, batching = scenario.engine, scenario.batching
    _check_predictions(scenario, groups)
    _check_prefix(scenario, groups)
    if scenario.allocator.kind == "contiguous":
        _check_contiguous(scenario.allocator, scenario.predictor.kind, batching.policy)
        if engine.num_gpu_blocks_override is not None:
            raise ValueError(
                f"{_CONTIGUOUS} has no blocks: size the pool with engine.kv_memory, not with "
                "engine.num_gpu_blocks_override"
            )
        if batching.watermark > 0:
            raise ValueError(
                f"{_CONTIGUOUS} places whole reservations: batching.watermark "
                f"(={batching.watermark}) counts blocks"
            )
        if len(groups) > 1 or groups[0].sliding_window is not None:
            raise ValueError(
                f"{_CONTIGUOUS} reserves for full attention in all layers; this model has windows "
                "or several KV groups"
            )
    if scenario.preemption.victim == "most-remaining" and scenario.predictor.kind == "none":
        raise ValueError(
            "preemption.victim = 'most-remaining' needs guesses of answer lengths: "
            "predictor.kind = 'none' gives none, choose another predictor"
        )


def _check_predictions(scenario: Scenario, groups: tuple[KVGroup, ...]) -> None:
    reserve = "batching.reserve_predicted_output"
    if scenario.predictor.kind == NoPrediction.name:
        if scenario.queue.policy == "sjf":
            require_prediction(NoPrediction(), "queue.policy = 'sjf'")
        if scenario.batching.reserve_predicted_output:
            require_prediction(NoPrediction(), reserve)
    if not scenario.batching.reserve_predicted_output:
        return
    if scenario.allocator.kind == "contiguous":
        raise ValueError(
            f"{_CONTIGUOUS} reserves by allocator.reservation: {reserve} belongs to block tables"
        )
    if len(groups) > 1 or groups[0].sliding_window is not None:
        raise ValueError(
            f"{reserve} counts for full attention in all layers; this model has windows or several "
            "KV groups"
        )
    if scenario.batching.policy not in _PREDICTED_ROOM:
        raise ValueError(
            f"{reserve} is a rule of batching.policy = {' and '.join(map(repr, _PREDICTED_ROOM))}, "
            f"not of {scenario.batching.policy!r}"
        )


def check_swapping(scenario: Scenario, *, is_async: bool) -> None:
    """Refuse to swap where nobody says what happens.

    Raises
    ------
    ValueError
        With the key that does not go with ``preemption.mode``.
    """
    mode = scenario.preemption.mode
    if mode == "recompute":
        return
    if scenario.allocator.kind != "paged":
        raise ValueError(
            f"preemption.mode = {mode!r} copies blocks to the host: allocator.kind = "
            f"{scenario.allocator.kind!r} cannot, only 'paged' can"
        )
    if scenario.allocator.prefix == "radix":
        raise ValueError(f"preemption.mode = {mode!r} copies blocks found by hash, not {_RADIX}")
    batching = scenario.batching
    swaps = batching.policy in _BATCHINGS_THAT_SWAP
    if batching.policy == "prefill-first":
        swaps = batching.prefill_rule == "watermark"
    if not swaps:
        raise ValueError(
            f"preemption.mode = {mode!r}: batching.policy = {batching.policy!r} brings nobody back "
            f"from the host, {', '.join(_BATCHINGS_THAT_SWAP)} and 'prefill-first' with "
            "batching.prefill_rule = 'watermark' do"
        )
    if is_async:
        raise ValueError(
            f"preemption.mode = {mode!r} is not defined with a step in flight: set "
            "engine.async_scheduling = false"
        )


def _check_contiguous(allocator: Allocator, predictor: str, batching: str) -> None:
    """Refuse what a reservation or a placement cannot do."""
    if allocator.reservation == Predicted.name and predictor == NoPrediction.name:
        require_prediction(NoPrediction(), "allocator.reservation = 'predicted'")
    if allocator.reservation == Predicted.name and batching not in _BATCHINGS_THAT_PREEMPT:
        raise ValueError(
            f"allocator.reservation = 'predicted' may be outgrown: batching.policy = {batching!r} "
            f"makes nobody give way, {' and '.join(_BATCHINGS_THAT_PREEMPT)} do"
        )
    if allocator.compaction != "none" and allocator.placement == Buddy.name:
        raise ValueError(
            f"allocator.compaction = {allocator.compaction!r} slides runs together, but buddies "
            "stay at multiples of their size: choose allocator.placement = 'first-fit' or "
            "'best-fit'"
        )


def check_copy_cost(scenario: Scenario) -> None:
    """Refuse a cost given by hand without a term that the allocator will ask for.

    Raises
    ------
    ValueError
        With the key that is missing.
    """
    allocator = scenario.allocator
    moves = allocator.reservation == Predicted.name or allocator.compaction != "none"
    if allocator.kind != "contiguous":
        moves = scenario.retention.kind != "model" and scenario.retention.compaction != "none"
    if moves and scenario.cost.per_copied_token_ps is None:
        raise ValueError(
            "KV may be copied within the pool: cost.source = 'linear' needs "
            "cost.per_copied_token (0 is allowed)"
        )


def _check_prefix(scenario: Scenario, groups: tuple[KVGroup, ...]) -> None:
    """Refuse an index of prefixes, or an eviction order, that the allocator cannot have."""
    kind, prefix, order = (
        scenario.allocator.kind,
        scenario.allocator.prefix,
        scenario.eviction.policy,
    )
    if kind == "contiguous" and prefix in {"hash", "radix"}:
        raise ValueError(f"{_CONTIGUOUS} shares no prefixes: allocator.prefix cannot be {prefix!r}")
    if prefix == "radix":
        if kind != "paged":
            raise ValueError(f"{_RADIX} belongs to allocator.kind = 'paged', not {kind!r}")
        if len(groups) > 1 or groups[0].sliding_window is not None:
            raise ValueError(
                f"{_RADIX} keeps full attention in all layers; this model has windows or several "
                "KV groups"
            )
        if needs_names(order):
            raise ValueError(
                f"eviction.policy = {order!r} remembers blocks by name, which the nodes of "
                f"{_RADIX} do not have"
            )
        if scenario.eviction.capacity is not None:
            raise ValueError(
                f"eviction.capacity (={scenario.eviction.capacity:g}) counts blocks found by hash: "
                f"{_RADIX} keeps what the pool has room for"
            )


def keys_set_aside(scenario: Scenario) -> list[str]:
    """Sentences on keys that nothing makes use of."""
    notes = []
    if scenario.allocator.kind == "contiguous":
        if scenario.engine.enable_prefix_caching:
            notes.append(
                f"{_CONTIGUOUS} shares no prefixes: engine.enable_prefix_caching is unused"
            )
        if scenario.engine.block_size is not None:
            notes.append(f"{_CONTIGUOUS} counts slots: engine.block_size is unused")
    cost = scenario.cost
    if scenario.preemption.mode == "recompute" and (cost.swap_alpha_ps or cost.swap_bytes_per_s):
        notes.append("preemption.mode = 'recompute' copies nothing: cost.swap_* is unused")
    if not scenario.prefix_caching():
        for name, default in (("policy", "lru"), ("capacity", None)):
            if getattr(scenario.eviction, name) != default:
                notes.append(f"nothing is cached: eviction.{name} is unused")
    return notes


def check_reservation(config: SchedulerConfig) -> None:
    """Refuse reservations of the model length that the empty pool cannot place.

    Raises
    ------
    ValueError
        Where no request could ever run.
    """
    if config.allocator.kind != "contiguous" or config.allocator.reservation != Max.name:
        return
    placement = make_placement(config.allocator.placement, config.usable_blocks)
    wanted = placement.rounded(config.max_model_len)
    if wanted > placement.largest_hole():
        raise ValueError(
            f"allocator.reservation = 'max' takes {wanted:,} slots in one run, the largest of the "
            f"empty pool has {placement.largest_hole():,}: lower engine.max_model_len "
            f"(={config.max_model_len:,})"
        )
