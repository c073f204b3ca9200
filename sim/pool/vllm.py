"""vLLM's pool: whole blocks of one size, the smallest number over all ranks, one null block.

Source: vLLM 0.32.0, ``v1/worker/gpu_worker.py`` (``determine_available_memory``: memory x
utilisation less weights, activation peak, non-torch and, since 0.21, the estimate of CUDA graphs)
and ``v1/core/kv_cache_utils.py`` (``get_num_blocks``: memory // page // layers of a group; all
workers take the smallest number). Block 0 is the null block: the log counts it, no request gets it.
With pipeline ranks the tables are made for the whole model and each rank stores its own layers of
them, so a block is as high as the rank's fullest table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.models.layers import shape_of
from kvsim.sim.models.stages import pipeline_stages
from kvsim.sim.pool.layout import block_layout
from kvsim.sim.pool.memory_terms import MemoryTerm, kv_left, memory_terms
from kvsim.sim.pool.types import RankShare, Split

if TYPE_CHECKING:
    from kvsim.sim.models.grouping import EngineGroups
    from kvsim.sim.models.stages import Stage
    from kvsim.sim.pool.memory_terms import PoolRequest

CHUNKED_NOTE = (
    "chunked attention is counted as a sliding window of the same size; an engine frees a chunk at"
    " its end, so between chunks it holds less"
)


def split_vllm(request: PoolRequest) -> Split:
    """Blocks of each rank by vLLM's rule."""
    layout = block_layout(request.model, request.block_size, request.kv_dtype, request.tp)
    stages = pipeline_stages(request.model, request.pp)
    heights = _stage_heights(layout.tables, stages)
    shares = tuple(
        _share(request, stage, layout.page_bytes * height)
        for stage, height in zip(stages, heights, strict=True)
    )
    notes: tuple[str, ...] = ()
    if any(group.kind == "chunked" for group in request.model.groups):
        notes = (CHUNKED_NOTE,)
    return Split(layout, shares, null_blocks=1, notes=notes)


def _share(request: PoolRequest, stage: Stage, block_bytes: int) -> RankShare:
    """Return the memory left on one pipeline rank, and its blocks."""
    on_rank = replace(request, model=stage.model)
    if request.num_blocks is not None:
        num_blocks, kv_bytes = request.num_blocks, request.num_blocks * block_bytes
        formula = f"{num_blocks:,} blocks x {block_bytes:,} B, given"
        terms: tuple[MemoryTerm, ...] = (MemoryTerm("KV", kv_bytes, formula),)
    elif request.kv_memory_bytes is not None:
        kv_bytes = request.kv_memory_bytes
        num_blocks = kv_bytes // block_bytes if block_bytes else 0
        terms = (MemoryTerm("KV", kv_bytes, "given"),)
    else:
        terms = memory_terms(on_rank, samples=stage.index == request.pp - 1)
        kv_bytes = kv_left(terms)
        num_blocks = max(kv_bytes, 0) // block_bytes if block_bytes else 0
    return RankShare(
        stage.index,
        stage.first,
        stage.last,
        stage.model,
        terms,
        kv_bytes,
        block_bytes,
        num_blocks if block_bytes else None,
    )


def _stage_heights(tables: EngineGroups, stages: tuple[Stage, ...]) -> list[int]:
    """Layers of the fullest table on each rank; table ``j`` of ``n`` takes every n-th layer."""
    if len(stages) == 1:
        return [tables.layers_per_group]
    num_tables = Counter(shape_of(table.layers) for table in tables.groups)
    seen: Counter[object] = Counter()
    heights = []
    for stage in stages:
        held: Counter[object] = Counter()
        for layer in stage.model.layers:
            shape = layer.shape
            if shape is not None and layer.stores_kv:
                held[(shape, seen[shape] % num_tables[shape])] += 1
                seen[shape] += 1
        heights.append(max(held.values(), default=0))
    return heights
