"""Combinations of a scenario's keys that make no sense, each refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators.placement import make_placement
from kvsim.policies.allocators.reservation import Max
from kvsim.policies.eviction import needs_names

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
    from kvsim.sim.scenario import Scenario

_CONTIGUOUS = "allocator.kind = 'contiguous'"
_RADIX = "allocator.prefix = 'radix'"
_ITERATION_LEVEL = "batching.policy = 'iteration-level'"


def check_combination(scenario: Scenario, groups: tuple[KVGroup, ...]) -> None:
    """Refuse keys that contradict the allocator or the batching; ``groups``: the model's KV.

    Raises
    ------
    ValueError
        With the two keys that contradict each other.
    """
    engine, batching = scenario.engine, scenario.batching
    _check_prefix(scenario, groups)
    if scenario.allocator.kind == "contiguous":
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
    if batching.policy == "iteration-level":
        if engine.max_num_batched_tokens is not None:
            raise ValueError(
                f"{_ITERATION_LEVEL} has no token budget: engine.max_num_batched_tokens "
                f"(={engine.max_num_batched_tokens}) belongs to another policy"
            )
        if batching.long_prefill_token_threshold > 0:
            raise ValueError(
                f"{_ITERATION_LEVEL} has no chunks: batching.long_prefill_token_threshold "
                f"(={batching.long_prefill_token_threshold}) belongs to another policy"
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
    """Sentences on keys that the allocator has no use for."""
    notes = []
    if scenario.allocator.kind == "contiguous":
        if scenario.engine.enable_prefix_caching:
            notes.append(
                f"{_CONTIGUOUS} shares no prefixes: engine.enable_prefix_caching is unused"
            )
        if scenario.engine.block_size is not None:
            notes.append(f"{_CONTIGUOUS} counts slots: engine.block_size is unused")
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
    if config.allocator != "contiguous" or config.reservation != Max.name:
        return
    placement = make_placement(config.placement, config.usable_blocks)
    wanted = placement.rounded(config.max_model_len)
    if wanted > placement.largest_hole():
        raise ValueError(
            f"allocator.reservation = 'max' takes {wanted:,} slots in one run, the largest of the "
            f"empty pool has {placement.largest_hole():,}: lower engine.max_model_len "
            f"(={config.max_model_len:,})"
        )
