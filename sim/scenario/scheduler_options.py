"""A scenario's tables as options of the scheduler, one function for each group of tables.

What stands in a table is taken as it stands; what depends on model, hardware or several keys at
once is :meth:`kvsim.sim.scenario.scenario.Scenario.scheduler_config`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.scenario.checks.batching import cuts_prompts
from kvsim.sim.scenario.checks.retention import budget_and_recent

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.scenario import Scenario


def with_memory(config: SchedulerConfig, scenario: Scenario) -> SchedulerConfig:
    """``[allocator]`` and ``[eviction]``."""
    allocator, eviction = scenario.allocator, scenario.eviction
    return replace(
        config,
        allocator=allocator.kind,
        reservation=allocator.reservation,
        reservation_margin=allocator.reservation_margin,
        placement=allocator.placement,
        compaction=allocator.compaction,
        samples="group" if allocator.samples == "group" else "requests",
        prefix="radix" if allocator.prefix == "radix" else "hash",
        freed_blocks_without_key=(
            "front" if allocator.freed_blocks_without_key == "front" else "back"
        ),
        eviction=eviction.policy,
        eviction_capacity=eviction.capacity,
    )


def with_batching(config: SchedulerConfig, scenario: Scenario) -> SchedulerConfig:
    """``[batching]``."""
    batching = scenario.batching
    return replace(
        config,
        batching=batching.policy,
        enable_chunked_prefill=cuts_prompts(scenario),
        long_prefill_token_threshold=batching.long_prefill_token_threshold,
        watermark=batching.watermark,
        scheduler_reserve_full_isl=batching.scheduler_reserve_full_isl,
        reserve_predicted_output=batching.reserve_predicted_output,
        lone_request_exempt_from_threshold=batching.lone_request_exempt_from_threshold,
        keep_room_for_last_token=batching.keep_room_for_last_token,
        prefill_rule=batching.prefill_rule,
        max_prefill_tokens=batching.max_prefill_tokens,
        new_token_ratio=batching.new_token_ratio,
        min_new_token_ratio_factor=batching.min_new_token_ratio_factor,
        new_token_ratio_decay_steps=batching.new_token_ratio_decay_steps,
        retract_decode_steps=batching.retract_decode_steps,
        clip_max_new_tokens=batching.clip_max_new_tokens,
        max_batch_total_tokens=batching.max_batch_total_tokens,
        waiting_served_ratio=batching.waiting_served_ratio,
        max_waiting_tokens=batching.max_waiting_tokens,
        pad_to_longest=batching.pad_to_longest,
    )


def with_order(config: SchedulerConfig, scenario: Scenario) -> SchedulerConfig:
    """``[queue]``, ``[predictor]`` and ``[preemption]``: who is next, and who goes."""
    queue, predictor, preemption = scenario.queue, scenario.predictor, scenario.preemption
    return replace(
        config,
        policy=queue.policy,
        queue_ageing=queue.ageing,
        queue_lpm_max_waiting=queue.lpm_max_waiting,
        queue_quantum=queue.quantum,
        predictor=predictor.kind,
        predictor_error=predictor.error,
        predictor_bucket_bounds=predictor.bucket_bounds,
        predictor_bucket_error=predictor.bucket_error_rate,
        predictor_quantile=predictor.quantile,
        predictor_prior=predictor.prior,
        victim=preemption.victim,
        victim_moves_position=(
            "always" if preemption.victim_moves_position == "always" else "scheduled"
        ),
        preemption_mode=preemption.mode,
    )


def with_retention(
    config: SchedulerConfig, scenario: Scenario, num_kv_heads: int
) -> SchedulerConfig:
    """``[retention]``; scores of a file are those of layers, whose heads choose together."""
    retention = scenario.retention
    budget, recent = 1, 1
    if retention.kind != "model":
        budget, recent = budget_and_recent(retention)
    by_layer = retention.scores is not None
    return replace(
        config,
        prefix_cache_retention_interval=retention.prefix_cache_retention_interval,
        retention=retention.kind,
        retention_sinks=retention.sinks,
        retention_recent=recent,
        retention_budget=budget,
        retention_heads=1 if by_layer else retention.heads or num_kv_heads,
        retention_head_agreement=retention.head_agreement,
        retention_scores=retention.scores,
        retention_score_ps=retention.score_ps,
        retention_compaction=retention.compaction,
    )
