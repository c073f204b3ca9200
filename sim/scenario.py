"""A scenario: what is simulated, as frozen tables whose keys are named as vLLM names them.

The tables are in :mod:`kvsim.sim.scenario_tables` and :mod:`kvsim.sim.policy_tables`, reading,
writing and presets in :mod:`kvsim.sim.scenario_loader`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.batching_checks import (
    WHOLE_UP_TO_BUDGET,
    WITHOUT_BUDGET,
    check_batching,
    cuts_prompts,
)
from kvsim.sim.policy_tables import (
    Allocator,
    Batching,
    Eviction,
    Predictor,
    Preemption,
    Queue,
    Retention,
)
from kvsim.sim.retention_checks import budget_and_recent, check_retention
from kvsim.sim.scenario_checks import check_combination, check_swapping
from kvsim.sim.scenario_tables import Cost, Engine, Hardware, Memory, Model, Slo

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PRESET: Final = "vllm-0.32"


@dataclass(frozen=True, slots=True)
class Scenario:
    """All tables; ``preset`` names the preset the scenario was built on, ``""`` = none.

    Build one with :meth:`load`, change one with :meth:`with_values`; both refuse unknown keys.
    """

    preset: str = ""
    model: Model = field(default_factory=Model)
    hardware: Hardware = field(default_factory=Hardware)
    memory: Memory = field(default_factory=Memory)
    cost: Cost = field(default_factory=Cost)
    engine: Engine = field(default_factory=Engine)
    batching: Batching = field(default_factory=Batching)
    allocator: Allocator = field(default_factory=Allocator)
    eviction: Eviction = field(default_factory=Eviction)
    preemption: Preemption = field(default_factory=Preemption)
    queue: Queue = field(default_factory=Queue)
    predictor: Predictor = field(default_factory=Predictor)
    retention: Retention = field(default_factory=Retention)
    slo: Slo = field(default_factory=Slo)

    @staticmethod
    def load(source: str = DEFAULT_PRESET) -> Scenario:
        """Scenario of a preset name or a TOML file; see :func:`scenario_loader.load_scenario`."""
        from kvsim.sim.scenario_loader import load_scenario  # noqa: PLC0415 - it imports this file

        return load_scenario(source)

    def with_values(self, values: Mapping[str, object]) -> Scenario:
        """Copy with ``{"engine.block_size": 32, "slo.ttft": "2s"}`` replaced.

        Raises
        ------
        ValueError
            On an unknown key or a value that its key does not accept.
        """
        from kvsim.sim.scenario_loader import replace_values  # noqa: PLC0415 - it imports this file

        return replace_values(self, values)

    def prefix_caching(self) -> bool:
        """Whether prompts share blocks; the two switches must not contradict each other.

        Raises
        ------
        ValueError
            Where ``allocator.prefix`` names an index and ``engine.enable_prefix_caching = false``.
        """
        if self.allocator.kind == "contiguous" or self.batching.policy == "static":
            return False
        switch, prefix = self.engine.enable_prefix_caching, self.allocator.prefix
        if prefix in {"hash", "radix"} and not switch:
            raise ValueError(
                f"allocator.prefix = {prefix!r} contradicts engine.enable_prefix_caching = false: "
                "set one of them"
            )
        return switch and prefix != "none"

    def scheduler_config(
        self,
        *,
        block_size: int,
        num_gpu_blocks: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        async_scheduling: bool,
        groups: tuple[KVGroup, ...] = (KVGroup(),),
        num_host_blocks: int = 0,
        num_kv_heads: int = 1,
    ) -> SchedulerConfig:
        """Engine options, with what depends on model and hardware filled in by the caller.

        Each argument is used only where the scenario leaves its key open (``num_gpu_blocks`` and
        ``num_host_blocks``: always, they are what was planned).

        Raises
        ------
        ValueError
            Where options contradict each other.
        """
        engine, batching = self.engine, self.batching
        model_len = engine.max_model_len or max_model_len
        groups = engine.kv_groups or groups
        check_combination(self, groups)
        is_async = async_scheduling if engine.async_scheduling is None else engine.async_scheduling
        check_batching(self, groups, is_async=is_async)
        check_swapping(self, is_async=is_async)
        check_retention(self, groups, caches=self.prefix_caching())
        kept, recent = 1, 1
        if self.retention.kind != "model":
            kept, recent = budget_and_recent(self.retention)
        by_layer = self.retention.scores is not None
        budget = engine.max_num_batched_tokens or max_num_batched_tokens
        if batching.policy in WITHOUT_BUDGET:  # a budget that never binds
            budget = model_len * (engine.max_num_seqs or max_num_seqs)
        takes_longest = budget >= model_len or batching.policy in WHOLE_UP_TO_BUDGET
        if not engine.enable_chunked_prefill and not takes_longest:
            raise ValueError(
                f"engine.enable_chunked_prefill = false needs engine.max_num_batched_tokens "
                f"(={budget}) >= engine.max_model_len (={model_len})"
            )
        seats = engine.max_num_seqs or min(max_num_seqs, budget)
        if seats > budget:
            raise ValueError(
                f"engine.max_num_batched_tokens (={budget}) must be at least "
                f"engine.max_num_seqs (={seats})"
            )
        contiguous = self.allocator.kind == "contiguous"
        return SchedulerConfig(
            allocator=self.allocator.kind,
            reservation=self.allocator.reservation,
            reservation_margin=self.allocator.reservation_margin,
            placement=self.allocator.placement,
            compaction=self.allocator.compaction,
            eviction=self.eviction.policy,
            eviction_capacity=self.eviction.capacity,
            batching=batching.policy,
            samples="group" if self.allocator.samples == "group" else "requests",
            beam_turnover=engine.beam_turnover,
            block_size=1 if contiguous else engine.block_size or block_size,
            num_gpu_blocks=num_gpu_blocks,
            max_num_batched_tokens=budget,
            max_num_seqs=seats,
            max_model_len=model_len,
            enable_prefix_caching=self.prefix_caching(),
            prefix="radix" if self.allocator.prefix == "radix" else "hash",
            enable_chunked_prefill=cuts_prompts(self),
            long_prefill_token_threshold=batching.long_prefill_token_threshold,
            policy=self.queue.policy,
            queue_ageing=self.queue.ageing,
            queue_lpm_max_waiting=self.queue.lpm_max_waiting,
            queue_quantum=self.queue.quantum,
            predictor=self.predictor.kind,
            predictor_error=self.predictor.error,
            predictor_bucket_bounds=self.predictor.bucket_bounds,
            predictor_bucket_error=self.predictor.bucket_error_rate,
            predictor_quantile=self.predictor.quantile,
            predictor_prior=self.predictor.prior,
            victim=self.preemption.victim,
            preemption_mode=self.preemption.mode,
            num_host_blocks=num_host_blocks,
            watermark=batching.watermark,
            scheduler_reserve_full_isl=batching.scheduler_reserve_full_isl,
            reserve_predicted_output=batching.reserve_predicted_output,
            async_scheduling=is_async,
            prefix_cache_retention_interval=self.retention.prefix_cache_retention_interval,
            kv_groups=groups,
            retention=self.retention.kind,
            retention_sinks=self.retention.sinks,
            retention_recent=recent,
            retention_budget=kept,
            retention_heads=1 if by_layer else self.retention.heads or num_kv_heads,
            retention_head_agreement=self.retention.head_agreement,
            retention_scores=self.retention.scores,
            retention_score_ps=self.retention.score_ps,
            retention_compaction=self.retention.compaction,
            freed_blocks_without_key=(
                "front" if self.allocator.freed_blocks_without_key == "front" else "back"
            ),
            lone_request_exempt_from_threshold=batching.lone_request_exempt_from_threshold,
            keep_room_for_last_token=batching.keep_room_for_last_token,
            victim_moves_position=(
                "always" if self.preemption.victim_moves_position == "always" else "scheduled"
            ),
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
