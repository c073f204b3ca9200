"""How a model's KV is cut into blocks: block size, bytes, and the engine's block tables.

::

    block (one id)          one of the tables below, layers_per_group layers high
    ┌──────────────┐        full attention     KVGroup(None)
    │ K V  layer 0 │        sliding window     KVGroup(1024), as many tables as its layers need
    │ K V  layer 1 │        fixed state        KVGroup(None) with one block a request
    │ ...          │
    └──────────────┘        all tables take their blocks from the one pool

vLLM 0.32.0's rules (``v1/core/kv_cache_utils.py``): every table has the same height; layers whose
token is smaller get more tokens a page; where a recurrent state is larger than an attention page,
the block size grows until the page holds it (so hybrids have blocks of hundreds of tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.models.grouping import EngineGroups, engine_groups

if TYPE_CHECKING:
    from kvsim.sim.models import ModelSpec

STATE_BLOCK_MULTIPLE = 16
"""A block size raised for a state is a multiple of this."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Blocks of one rank. ``kv_groups`` is what the engine's scheduler is told."""

    block_size: int
    page_bytes: int
    """Bytes of one block in one layer."""
    tables: EngineGroups

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: a page for each layer of a table."""
        return self.page_bytes * self.tables.layers_per_group

    @property
    def kv_groups(self) -> tuple[KVGroup, ...]:
        """One entry a block table that grows with the sequence, windows in table order."""
        return tuple(
            KVGroup(table.layers.window)
            for table in self.tables.groups
            if table.layers.kind != "state"
        )

    @property
    def num_state_tables(self) -> int:
        """Tables that take one block a request for as long as it runs."""
        return sum(table.layers.kind == "state" for table in self.tables.groups)

    def blocks_for(self, length: int, step_tokens: int = 0) -> int:
        """Blocks that a sequence of ``length`` tokens holds at most.

        A window keeps its tokens and those of the step being computed (``step_tokens``), plus one
        block because it need not start at a block's edge (vLLM's ``max_memory_usage_bytes``).
        """
        blocks = self.num_state_tables
        for group in self.kv_groups:
            if group.sliding_window is None:
                blocks += math.ceil(length / self.block_size)
            else:
                kept = min(group.sliding_window - 1 + step_tokens, length)
                blocks += min(
                    math.ceil(kept / self.block_size) + 1, math.ceil(length / self.block_size)
                )
        return blocks


def block_layout(
    model: ModelSpec, block_size: int, kv_dtype: str = "auto", tp: int = 1
) -> BlockLayout:
    """Layout of ``model`` for blocks of at least ``block_size`` tokens on one of ``tp`` ranks."""
    name = model.kv_dtype(kv_dtype)
    tables = engine_groups(model)
    tokens = [
        table.layers.layer_kv_bytes(name, tp)
        for table in tables.groups
        if table.layers.kind != "state"
    ]
    states = [
        math.ceil(table.layers.state_bytes / tp)
        for table in tables.groups
        if table.layers.kind == "state"
    ]
    if states and tokens:
        needed = math.ceil(max(states) / max(tokens))
        if needed > block_size:
            block_size = -(-needed // STATE_BLOCK_MULTIPLE) * STATE_BLOCK_MULTIPLE
    pages = [math.ceil(token * block_size) for token in tokens] + states
    if not pages:
        raise ValueError(
            f"{model.name} keeps nothing of a sequence, so there is no KV pool to plan"
        )
    return BlockLayout(block_size, max(pages), tables)
