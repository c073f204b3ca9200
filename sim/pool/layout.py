"""How a model's KV is cut into blocks: block size, bytes, and the engine's block tables.

::

    block (one id)          one of the tables below, layers_per_group layers high
    ┌──────────────┐        full attention     KVGroup(None)
    │ K V  layer 0 │        sliding window     KVGroup(1024), as many tables as its layers need
    │ K V  layer 1 │        fixed state        one block a request, not in kv_groups
    │ ...          │
    └──────────────┘        all tables take their blocks from the one pool

vLLM 0.32.0's rules (``v1/core/kv_cache_utils.py``): every table has the same height; layers whose
token is smaller get more tokens a page; where a recurrent state is larger than an attention page,
the block size grows until the page holds it (so hybrids have blocks of hundreds of tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.models.grouping import EngineGroup, EngineGroups, engine_groups

if TYPE_CHECKING:
    from kvsim.sim.models import ModelSpec

STATE_BLOCK_MULTIPLE = 16
"""A block size raised for a state is a multiple of this."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Blocks of one rank. The engine's scheduler gets ``kv_groups``."""

    block_size: int
    page_bytes: int
    """Bytes of one block in one layer."""
    tables: EngineGroups
    block_sizes: tuple[int, ...]
    """Tokens in a block of each growing table; more if the tokens of its layers are smaller."""

    @property
    def longest(self) -> None:
        """No limit except the pool."""
        return

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: a page for each layer of a table."""
        return self.page_bytes * self.tables.layers_per_group

    @property
    def growing(self) -> tuple[EngineGroup, ...]:
        """Tables that grow with the sequence, in engine order."""
        return tuple(table for table in self.tables.groups if table.layers.kind != "state")

    @property
    def kv_groups(self) -> tuple[KVGroup, ...]:
        """One entry a growing table, windows in table order."""
        return tuple(KVGroup(table.layers.window) for table in self.growing)

    @property
    def uniform(self) -> bool:
        """Whether every growing table has the same tokens a block."""
        return len(set(self.block_sizes)) <= 1

    @property
    def num_state_tables(self) -> int:
        """Tables that take one block a request for as long as it runs."""
        return len(self.tables.groups) - len(self.growing)

    def table_blocks(self, length: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks that a sequence of ``length`` tokens may hold, by growing table.

        A window keeps its tokens and those of the step being computed (``step_tokens``), plus one
        block because it need not start at a block's edge (vLLM's ``max_memory_usage_bytes``).
        """
        blocks = []
        for table, size in zip(self.growing, self.block_sizes, strict=True):
            whole = math.ceil(length / size)
            if table.layers.window is None:
                blocks.append(whole)
            else:
                kept = min(table.layers.window - 1 + step_tokens, length)
                blocks.append(min(math.ceil(kept / size) + 1, whole))
        return tuple(blocks)

    def blocks_for(self, length: int, step_tokens: int = 1) -> int:
        """Blocks of the pool that a sequence of ``length`` tokens may hold, all tables."""
        return sum(self.table_blocks(length, step_tokens)) + self.num_state_tables

    def charged_blocks(self, length: int, step_tokens: int = 1) -> int:
        """Blocks that vLLM counts for one request of ``length`` tokens, as its log does.

        As :meth:`blocks_for`, with two differences. A window gets its extra block even if it
        contains the whole sequence. A chunk (Llama 4) gets none (``kv_cache_interface.py``).
        """
        blocks = self.num_state_tables
        for table, size in zip(self.growing, self.block_sizes, strict=True):
            layers, kept = table.layers, length
            if layers.window is not None:
                before = layers.window if layers.kind == "chunked" else layers.window - 1
                kept = min(before + step_tokens, length)
            blocks += math.ceil(kept / size) + (layers.kind == "sliding")
        return blocks


def block_layout(
    model: ModelSpec, block_size: int, kv_dtype: str = "auto", tp: int = 1
) -> BlockLayout:
    """Layout of ``model`` for blocks of at least ``block_size`` tokens on one of ``tp`` ranks."""
    name = model.kv_dtype(kv_dtype)
    tables = engine_groups(model)
    tokens = [t.layers.layer_kv_bytes(name, tp) for t in tables.groups if t.layers.kind != "state"]
    states = [
        math.ceil(Fraction(t.layers.state_bytes, tp))
        for t in tables.groups
        if t.layers.kind == "state"
    ]
    if not tables.groups:
        raise ValueError(f"{model.name} keeps nothing of a sequence, so there is no KV pool")
    if states and tokens:
        needed = math.ceil(max(states) / max(tokens))
        if needed > block_size:
            block_size = -(-needed // STATE_BLOCK_MULTIPLE) * STATE_BLOCK_MULTIPLE
    page = max(math.ceil(bytes_ * block_size) for bytes_ in [*tokens, Fraction(0)])
    sizes = tuple(
        block_size * int(page // (bytes_ * block_size))
        if page % (bytes_ * block_size) == 0
        else block_size
        for bytes_ in tokens
    )
    return BlockLayout(block_size, max([page, *states]), tables, sizes)
