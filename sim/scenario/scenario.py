"""A scenario: what is simulated, as frozen tables whose keys are named as vLLM names them.

The tables are in :mod:`kvsim.sim.scenario.tables` and :mod:`kvsim.policies.options`, reading,
writing and presets in :mod:`kvsim.sim.scenario.loader`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvsim.policies.options import (
    Allocator,
    Batching,
    Eviction,
    Predictor,
    Preemption,
    Queue,
    Retention,
)
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.scenario.checks.batching import WITHOUT_BUDGET, cuts_prompts
from kvsim.sim.scenario.checks.check import refuse
from kvsim.sim.scenario.checks.scenario import SCENARIO
from kvsim.sim.scenario.tables import Cost, Engine, Hardware, Memory, Model, Slo

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
        from kvsim.sim.scenario.loader import load_scenario  # noqa: PLC0415 - it imports this file

        return load_scenario(source)

    def with_values(self, values: Mapping[str, object]) -> Scenario:
        """Copy with ``{"engine.block_size": 32, "slo.ttft": "2s"}`` replaced.

        Raises
        ------
        ValueError
            On an unknown key or a value that its key does not accept.
        """
        from kvsim.sim.scenario.loader import replace_values  # noqa: PLC0415 - it imports this file

        return replace_values(self, values)

    def prefix_caching(self) -> bool:
        """Whether prompts share blocks."""
        if self.allocator.kind == "contiguous" or self.batching.policy == "static":
            return False
        return self.engine.enable_prefix_caching and self.allocator.prefix != "none"

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
        engine = self.engine
        model_len = engine.max_model_len or max_model_len
        groups = engine.kv_groups or groups
        is_async = async_scheduling if engine.async_scheduling is None else engine.async_scheduling
        budget = engine.max_num_batched_tokens or max_num_batched_tokens
        if self.batching.policy in WITHOUT_BUDGET:  # a budget that never binds
            budget = model_len * (engine.max_num_seqs or max_num_seqs)
        contiguous = self.allocator.kind == "contiguous"
        config = SchedulerConfig(
            allocator=self.allocator,
            batching=self.batching,
            eviction=self.eviction,
            preemption=self.preemption,
            queue=self.queue,
            predictor=self.predictor,
            retention=self.retention,
            block_size=1 if contiguous else engine.block_size or block_size,
            num_gpu_blocks=num_gpu_blocks,
            num_host_blocks=num_host_blocks,
            max_num_batched_tokens=budget,
            max_num_seqs=engine.max_num_seqs or min(max_num_seqs, budget),
            max_model_len=model_len,
            enable_prefix_caching=self.prefix_caching(),
            enable_chunked_prefill=cuts_prompts(self),
            async_scheduling=is_async,
            kv_groups=groups,
            num_kv_heads=num_kv_heads,
            beam_turnover=engine.beam_turnover,
        )
        refuse(SCENARIO, self, config)
        return config
