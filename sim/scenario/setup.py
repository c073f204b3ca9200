"""Build an engine from a scenario: options, pool and step cost, with vLLM's defaults filled in.

The defaults are those of vLLM 0.32.0 (``EngineArgs``). ``max_num_seqs`` and the token budget depend
on the hardware and the entry point. The block size and async scheduling depend on the platform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.eviction import uses_oracle
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.retention import scores_of
from kvsim.sim.cost.profile import layout_name
from kvsim.sim.cost.profile_cost import ProfileCost
from kvsim.sim.cost.retention_cost import reads_kept
from kvsim.sim.cost.sources import (
    build_cost,
    error_notes,
    find_profile,
    own_attention_factor,
)
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.hardware import load_hardware, server_defaults
from kvsim.sim.models import load_model
from kvsim.sim.models.reshape import with_kv_heads
from kvsim.sim.models.stages import expand_latents_of
from kvsim.sim.pool.layout import BlockLayout
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.scenario.checks.check import refuse, sentences
from kvsim.sim.scenario.checks.retention import retention_notes
from kvsim.sim.scenario.checks.scenario import COST, UNUSED
from kvsim.sim.scenario.host_link import host_link, swap_notes
from kvsim.sim.scenario.preset import check_known_to_engine

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec
    from kvsim.sim.pool.memory_terms import MemoryTerm
    from kvsim.sim.pool.plan import Pool
    from kvsim.sim.scenario.scenario import Scenario

_BLOCK_SIZE: Final = 16
_BLOCK_SIZE_ON_CPU: Final = 128
_PAGE_SIZE: Final = 1
"""Tokens a page of a radix tree (SGLang 0.5.23)."""
_OFFLINE_BUDGETS: Final = {8192: 16384, 2048: 8192}
"""Token budget of the offline entry point, by that of the API server."""


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What an engine runs with.

    ``pool_terms`` are the lines of the pool's plan; ``notes`` are sentences the user should see;
    ``link`` is there where victims may be swapped.
    """

    config: SchedulerConfig
    cost: StepCost
    pool: PoolShape
    pool_terms: tuple[MemoryTerm, ...] = ()
    notes: tuple[str, ...] = ()
    link: HostLink | None = None


def set_up(scenario: Scenario) -> EngineSetup:
    """Engine setup of a scenario.

    Raises
    ------
    ValueError
        On an unknown model, hardware or cost source, a pool that nothing is left for, or options
        that contradict each other, that the preset's engine lacks, and what is planned but not
        simulated.
    """
    check_known_to_engine(scenario)
    request = pool_request(scenario)
    model, hardware = request.model, request.hardware
    max_num_seqs, budget = default_batch(hardware, scenario.engine.entry_point)
    pool = plan(request)
    layout = _simulated_layout(scenario, model, pool)
    swaps = scenario.preemption.mode != "recompute"
    config = scenario.scheduler_config(
        block_size=pool.block_size,
        num_gpu_blocks=pool.num_blocks,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        max_model_len=model.max_position,
        async_scheduling=hardware.kind != "cpu",
        groups=layout.kv_groups,
        num_host_blocks=scenario.preemption.swap_space_bytes // pool.block_bytes if swaps else 0,
        num_kv_heads=model.groups[0].kv_heads_per_rank(scenario.engine.tensor_parallel_size),
    )
    scores = scores_of(config)
    shape = PoolShape(
        num_blocks=pool.num_blocks,
        block_size=config.block_size,
        block_bytes=pool.block_bytes,
        remainder_bytes=pool.remainder_bytes,
        num_null_blocks=config.num_null_blocks,
        scores_per_token=model.num_layers * config.retention_heads,
    )
    cost = _cost(scenario, model, hardware, config)
    if isinstance(cost, ProfileCost) and not config.keeps_everything:
        cost = reads_kept(cost, config)
    link = host_link(scenario, hardware, pool) if swaps else None
    notes = (
        *sentences(UNUSED, scenario, config),
        *retention_notes(scenario, config, scores, model.num_layers),
        *_notes(config, model, pool),
    )
    if scenario.cost.source != "linear":
        notes += error_notes(find_profile(scenario.cost.source, hardware, model))
    if link is not None:
        notes += swap_notes(scenario, link, config.num_host_blocks)
    return EngineSetup(config, cost, shape, pool.terms, notes, link)


def default_batch(hardware: HardwareSpec, entry_point: str) -> tuple[int, int]:
    """``(max_num_seqs, max_num_batched_tokens)`` of vLLM 0.32.0 for an entry point."""
    max_num_seqs, budget = server_defaults(hardware)
    return max_num_seqs, budget if entry_point == "server" else _OFFLINE_BUDGETS[budget]


def pool_request(scenario: Scenario) -> PoolRequest:
    """Collect what the pool of a scenario is planned for, under vLLM's rule and defaults.

    Raises
    ------
    ValueError
        On an unknown model or hardware, or two sizes of the pool.
    """
    engine, memory = scenario.engine, scenario.memory
    if engine.num_gpu_blocks_override is not None and engine.kv_memory_bytes is not None:
        raise ValueError(
            "engine.num_gpu_blocks_override and engine.kv_memory both size the pool: give one"
        )
    model, hardware = load_model(scenario.model.name), load_hardware(scenario.hardware.name)
    if scenario.model.mla == "expanded":
        model = expand_latents_of(model)
    if scenario.model.num_kv_heads is not None:
        model = with_kv_heads(model, scenario.model.num_kv_heads)
    max_num_seqs, budget = default_batch(hardware, engine.entry_point)
    budget = engine.max_num_batched_tokens or budget
    overlaps = hardware.kind != "cpu" if engine.async_scheduling is None else None
    return PoolRequest(
        model=model,
        hardware=hardware,
        block_size=_block_size(scenario, hardware),
        max_num_batched_tokens=budget,
        max_num_seqs=engine.max_num_seqs or min(max_num_seqs, budget),
        gpu_memory_utilization=engine.gpu_memory_utilization,
        weight_dtype=scenario.model.weight_dtype,
        kv_dtype=engine.kv_cache_dtype,
        tp=engine.tensor_parallel_size,
        pp=engine.pipeline_parallel_size,
        num_blocks=engine.num_gpu_blocks_override,
        kv_memory_bytes=engine.kv_memory_bytes,
        total_bytes=memory.total_bytes,
        weights_bytes=memory.weights_bytes,
        peak_bytes=memory.peak_bytes,
        graphs_bytes=memory.graphs_bytes,
        non_torch_bytes=memory.non_torch_bytes,
        max_model_len=engine.max_model_len or model.max_position,
        batches_in_flight=2 if overlaps or engine.async_scheduling else 1,
    )


def _block_size(scenario: Scenario, hardware: HardwareSpec) -> int:
    """Tokens a block: given, or the engine's default; contiguous pools are counted in slots."""
    if scenario.allocator.kind == "contiguous":
        return 1
    if scenario.allocator.prefix == "radix":
        return scenario.engine.block_size or _PAGE_SIZE
    default = _BLOCK_SIZE_ON_CPU if hardware.kind == "cpu" else _BLOCK_SIZE
    return scenario.engine.block_size or default


def _simulated_layout(scenario: Scenario, model: ModelSpec, pool: Pool) -> BlockLayout:
    """Block layout of the pool, if the engines that step through time model all of it."""
    layout = pool.layout
    assert isinstance(layout, BlockLayout), "the engine that is simulated is vLLM"
    if layout.num_state_tables:
        raise ValueError(
            f"model {model.name} keeps a fixed state per request, which is not simulated yet"
            " (kvsim plan shows its memory)"
        )
    if not layout.uniform and scenario.engine.kv_groups is None:
        sizes = " and ".join(str(size) for size in sorted(set(layout.block_sizes)))
        raise ValueError(
            f"the blocks of {model.name} hold {sizes} tokens, by layer group; block tables of"
            " different block sizes are not simulated yet (kvsim plan shows its memory)"
        )
    if scenario.engine.pipeline_parallel_size > 1:
        raise ValueError(
            f"engine.pipeline_parallel_size = {scenario.engine.pipeline_parallel_size}: pipeline"
            " stages are not simulated yet (kvsim plan shows their memory)"
        )
    return layout


def _cost(
    scenario: Scenario, model: ModelSpec, hardware: HardwareSpec, config: SchedulerConfig
) -> StepCost:
    cost = scenario.cost
    refuse(COST, scenario, config)
    if cost.source == "linear":
        return LinearCost(
            base_ps=cost.base_ps or 0,
            per_prefill_token_ps=cost.per_prefill_token_ps or 0,
            per_decode_seq_ps=cost.per_decode_seq_ps or 0,
            per_context_token_ps=cost.per_context_token_ps or 0,
            per_copied_token_ps=cost.per_copied_token_ps or 0,
        )
    return build_cost(
        cost.source,
        model,
        hardware,
        tp=scenario.engine.tensor_parallel_size,
        overlap=config.async_scheduling,
        weight_dtype=scenario.model.weight_dtype,
        kv_dtype=scenario.engine.kv_cache_dtype,
        attention_factor=_attention_factor(scenario, hardware, config),
    )


def _attention_factor(scenario: Scenario, hardware: HardwareSpec, config: SchedulerConfig) -> float:
    """Decode attention of the memory layout in use against the profile's."""
    cost = scenario.cost
    if cost.attention_factor == "same":
        return 1.0
    layout = layout_name(config.allocator.kind, config.block_size)
    factor = own_attention_factor(cost.source, hardware, layout)
    if factor is None:
        raise ValueError(
            f"cost.attention_factor = 'own': cost source {cost.source!r} on {hardware.name} has no "
            f"factor for the layout {layout}; take 'same', or a profile that has one"
        )
    return factor


def _notes(config: SchedulerConfig, model: ModelSpec, pool: Pool) -> tuple[str, ...]:
    notes = [*model.notices, *pool.notes]
    reservation, predictor = config.allocator.reservation, config.predictor.kind
    eviction = config.eviction
    if config.allocator.kind == "contiguous" and getattr(
        RESERVATIONS.find(reservation), "uses_oracle", False
    ):
        notes.append(
            f"uses oracle knowledge: allocator.reservation = {reservation!r} knows the true "
            "length of every output"
        )
    if getattr(PREDICTORS.find(predictor), "uses_oracle", False):
        notes.append(
            f"uses oracle knowledge: predictor.kind = {predictor!r} is made from the true "
            "length of every output"
        )
    if config.enable_prefix_caching and uses_oracle(eviction.policy):
        notes.append(
            f"reads the future: eviction.policy = {eviction.policy!r} knows the requests to come, "
            "in the order of the trace; in an engine it is one more policy, not a bound"
        )
    if config.enable_prefix_caching and eviction.capacity == math.inf:
        notes.append(
            "eviction.capacity = inf: what the pool evicts comes back at no cost; a ceiling, not "
            "an engine that can be built"
        )
    usable_tokens = config.usable_blocks * config.block_size
    if len(config.kv_groups) == 1 and usable_tokens < config.max_model_len:
        notes.append(
            f"the pool holds {usable_tokens:,} tokens, fewer than max_model_len "
            f"{config.max_model_len:,} (an engine would not start): longer requests are refused"
        )
    return tuple(notes)
