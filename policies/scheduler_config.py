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
    reservation_margin: float = 1.0
    """What predictions are multiplied with, where they are reserved."""
    placement: str = "buddy"
    compaction: str = "none"
    """``none``, or ``when-blocked``: runs slide for a head that has room in sum, but no hole."""
    eviction: str = "lru"
    eviction_capacity: float | None = None
    """Most unreferenced blocks that stay cached; ``None``: what the pool has room for, ``inf``:
    evicted content stays findable (``BlockPool``).
    """
    batching: str = "mixed-running-first"
    samples: Literal["requests", "group"] = "requests"
    """What the answers to one prompt are: requests of their own, or one sequence group."""
    beam_turnover: float = 0.05
    """Share of the tokens after which the beams of a group are drawn anew."""

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
    """Queue order, by name; what follows are the parameters of some of them."""
    queue_ageing: float = 0.0
    queue_lpm_max_waiting: int | None = 128
    queue_quantum: int = 2048
    predictor: str = "none"
    """Length predictor, by name; what follows are the parameters of some of them."""
    predictor_error: float = 0.5
    predictor_bucket_bounds: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    predictor_bucket_error: float = 0.0
    predictor_quantile: float = 0.5
    predictor_prior: int = 512
    victim: str = "by-queue"
    """Who is preempted: a name of :data:`kvsim.policies.preemption.VICTIMS`."""
    preemption_mode: str = "recompute"
    """What becomes of its KV: a name of :data:`kvsim.policies.preemption.MODES`."""
    num_host_blocks: int = 0
    """Room in host memory for swapped blocks."""
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    reserve_predicted_output: bool = False
    """Admission keeps room for the predicted rest of all answers that run."""
    async_scheduling: bool = False
    prefix_cache_retention_interval: int | None = None
    """Which full blocks of a window group get a key: those that a resume needs, and the tail of
    each interval of so many tokens (0: no interval's, ``None``: every block).
    """
    kv_groups: tuple[KVGroup, ...] = (KVGroup(),)
    """In the order in which they take blocks and give them up."""
    retention: str = "model"
    """What a KV group keeps, by name; what follows are the parameters of some kinds, in tokens."""
    retention_sinks: int = 0
    retention_recent: int = 1
    retention_budget: int = 1
    retention_heads: int = 1
    """Heads that choose what they keep, each for itself."""
    retention_head_agreement: float = 0.0
    retention_scores: str | None = None
    """File of attention scores."""
    retention_score_ps: int = 0
    """What a decode pays for each kept token whose score it updates."""
    retention_compaction: str = "none"
    """``none``, or ``eager``: the emptiest block is packed into the others' holes."""
    freed_blocks_without_key: Literal["front", "back"] = "front"
    """Where the free queue takes them: 0.32.0 front, 0.12.0 and 0.8.5 back."""
    lone_request_exempt_from_threshold: bool = True
    """0.32.0 only: no long-prefill cap while running + waiting is exactly 1."""
    keep_room_for_last_token: bool = True
    """The ``- 1`` in the clamp ``max_model_len - computed - 1``: 0.12.0 and later."""
    victim_moves_position: Literal["always", "scheduled"] = "always"
    """Priority: the walk's position moves back for any earlier victim, or only a scheduled one."""

    prefill_rule: str = "new-token-ratio"
    """``prefill-first``: what may enter, by ``new-token-ratio`` (SGLang) or ``watermark`` (v0)."""
    max_prefill_tokens: int = 16384
    new_token_ratio: float = 0.7
    min_new_token_ratio_factor: float = 0.14
    new_token_ratio_decay_steps: int = 600
    retract_decode_steps: int = 20
    clip_max_new_tokens: int = 4096
    max_batch_total_tokens: int | None = None
    """``token-budget``: ``None`` is the whole pool."""
    waiting_served_ratio: float = 0.3
    max_waiting_tokens: int = 20
    pad_to_longest: bool = False

    @property
    def num_null_blocks(self) -> int:
        """Blocks of the pool that hold nothing: vLLM's null block, 0 without its block tables."""
        return int(self.allocator != "contiguous" and self.prefix == "hash")

    @property
    def promises_longest_end(self) -> bool:
        """Whether a request enters only when memory is there for all that its client allows."""
        return self.batching in {"no-evict", "token-budget"}

    @property
    def keeps_everything(self) -> bool:
        """Whether each KV group keeps what the model attends to."""
        return self.retention == "model"

    @property
    def kept_sizes(self) -> list[int]:
        """Most tokens that attention reads, one entry a KV group that does not keep everything."""
        if not self.keeps_everything:
            return [self.retention_budget]
        windows = (group.sliding_window for group in self.kv_groups)
        return [window for window in windows if window is not None]

    @property
    def usable_blocks(self) -> int:
        """Blocks that can be handed out."""
        return self.num_gpu_blocks - self.num_null_blocks
