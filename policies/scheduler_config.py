"""Options of the engine's scheduler and KV manager, named as vLLM names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share one block table: full attention, or a sliding window of tokens."""

    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """One engine's rules (vLLM 0.32.0 unless a field says otherwise).

    ``num_gpu_blocks`` counts the null block. The last four fields are the rules that changed
    between vLLM versions; their defaults are those of 0.32.0.

    With ``prefix = "radix"`` a block is a page of SGLang's radix tree, there is no null block, and
    ``eviction`` says which node of the tree goes first.

    With ``allocator = "contiguous"`` the pool is counted in slots: ``block_size`` is 1, there is
    no null block, and ``reservation`` and ``placement`` say what a sequence takes and where.
    """

    allocator: str = "paged"
    reservation: str = "max"
    placement: str = "buddy"
    eviction: str = "lru"
    eviction_capacity: float | None = None
    """Most unreferenced blocks that stay cached; ``None``: what the pool has room for, ``inf``:
    evicted content stays findable (``BlockPool``).
    """
    batching: str = "mixed-running-first"

    block_size: int = 16
    num_gpu_blocks: int = 1024
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 4096
    enable_prefix_caching: bool = True
    prefix: Literal["hash", "radix"] = "hash"
    """Index of cached prefixes."""
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: str = "fcfs"
    """Queue order: ``fcfs`` or ``priority``."""
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    async_scheduling: bool = False
    prefix_cache_retention_interval: int | None = None
    """``None``: every full block of a window group gets a key; 0: only those a resume needs."""
    kv_groups: tuple[KVGroup, ...] = (KVGroup(),)
    freed_blocks_without_key: Literal["front", "back"] = "front"
    """Where the free queue takes them: 0.32.0 front, 0.12.0 and 0.8.5 back."""
    lone_request_exempt_from_threshold: bool = True
    """0.32.0 only: no long-prefill cap while running + waiting is exactly 1."""
    keep_room_for_last_token: bool = True
    """The ``- 1`` in the clamp ``max_model_len - computed - 1``: 0.12.0 and later."""
    victim_moves_position: Literal["always", "scheduled"] = "always"
    """Priority: the walk's position moves back for any earlier victim, or only a scheduled one."""

    @property
    def num_null_blocks(self) -> int:
        """Blocks of the pool that hold nothing: vLLM's null block, 0 without its block tables."""
        return int(self.allocator == "paged" and self.prefix == "hash")

    @property
    def usable_blocks(self) -> int:
        """Blocks that can be handed out."""
        return self.num_gpu_blocks - self.num_null_blocks
