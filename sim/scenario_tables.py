"""The tables of a scenario: one dataclass each, keys named as vLLM names them.

What a key accepts stands beside its default. ``None`` means: as vLLM chooses for the hardware and
the entry point (:mod:`kvsim.sim.engine_defaults`), unless the table says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.policies.allocators import ALLOCATORS
from kvsim.policies.allocators.placement import PLACEMENTS
from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.batching import BATCHING
from kvsim.policies.eviction import EVICTION
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.preemption import MODES, VICTIMS, Recompute
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.retention import RETENTION
from kvsim.sim.scenario_keys import (
    above_zero,
    builtin,
    choice,
    count_or_inf,
    duration,
    flag,
    fraction,
    increasing,
    key,
    kv_groups,
    named,
    number,
    policy,
    size,
    text,
    whole,
)

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import KVGroup


@dataclass(frozen=True, slots=True)
class Model:
    """``[model]``: bundled name, or the path of a ``config.json``; ``auto`` = its own dtype.

    ``mla = "expanded"``: K and V of every head are stored instead of the latent. ``num_kv_heads``
    asks what if: full attention with so many KV heads, the weights as they are.
    """

    name: str = key("llama-3.1-8b", text("a bundled model name or the path of a config.json"))
    weight_dtype: str = key("auto", text("'auto' or a weight format such as 'fp8'"))
    mla: str = key("latent", choice("latent", "expanded"))
    num_kv_heads: int | None = key(None, whole(1, optional=True))


@dataclass(frozen=True, slots=True)
class Hardware:
    """``[hardware]``: bundled name, or the path of a hardware file."""

    name: str = key("h100-sxm", text("a bundled hardware name or the path of a hardware file"))


@dataclass(frozen=True, slots=True)
class Memory:
    """``[memory]``: terms of the pool that are known better than they are worked out, a rank.

    ``total`` replaces the card's memory, the others what is spent before KV.
    """

    total_bytes: int | None = key(None, size(), name="total")
    weights_bytes: int | None = key(None, size(or_zero=True), name="weights")
    peak_bytes: int | None = key(None, size(or_zero=True), name="peak")
    graphs_bytes: int | None = key(None, size(or_zero=True), name="graphs")
    non_torch_bytes: int | None = key(None, size(or_zero=True), name="non_torch")


@dataclass(frozen=True, slots=True)
class Cost:
    """``[cost]``: where step times come from.

    ``auto`` takes the hardware's profile, else its datasheet; a profile's name or path is taken as
    it is. The times are the terms of ``linear``: per step, per prefill token, per decoding request,
    per context token, and per token whose KV is copied to another place in the pool.
    ``attention_factor = "own"`` charges decode attention by the memory layout in use, as far as the
    profile knows it; ``same`` is one kernel for all layouts. ``swap_alpha`` (a copy) and
    ``swap_bandwidth`` (bytes a second) price the way to the host; ``None``:
    :mod:`kvsim.sim.host_link`.
    """

    source: str = key(
        "auto",
        text("'auto', 'profile', 'datasheet', 'linear', a profile's name or the path of its file"),
    )
    attention_factor: str = key("same", choice("same", "own"))
    base_ps: int | None = key(None, duration(), name="base")
    per_prefill_token_ps: int | None = key(None, duration(), name="per_prefill_token")
    per_decode_seq_ps: int | None = key(None, duration(), name="per_decode_seq")
    per_context_token_ps: int | None = key(None, duration(), name="per_context_token")
    swap_alpha_ps: int | None = key(None, duration(), name="swap_alpha")
    swap_bytes_per_s: int | None = key(None, size(), name="swap_bandwidth")
    per_copied_token_ps: int | None = key(None, duration(), name="per_copied_token")


@dataclass(frozen=True, slots=True)
class Engine:
    """``[engine]``: sizes and switches of the engine.

    ``num_gpu_blocks_override`` counts the null block; it and ``kv_memory`` (bytes for KV) replace
    what ``gpu_memory_utilization`` would leave. ``entry_point`` picks vLLM's defaults.
    ``beam_turnover``: share of the tokens after which beams are drawn anew
    (:mod:`kvsim.sim.beam_tree`).
    """

    entry_point: str = key("server", choice("server", "offline"))
    block_size: int | None = key(None, whole(1, optional=True))
    num_gpu_blocks_override: int | None = key(None, whole(2, optional=True))
    kv_memory_bytes: int | None = key(None, size(), name="kv_memory")
    kv_cache_dtype: str = key("auto", text("'auto' or a KV format such as 'fp8'"))
    tensor_parallel_size: int = key(1, whole(1))
    pipeline_parallel_size: int = key(1, whole(1))
    gpu_memory_utilization: float = key(0.9, fraction(above_zero=True))
    max_model_len: int | None = key(None, whole(2, optional=True))
    max_num_seqs: int | None = key(None, whole(1, optional=True))
    max_num_batched_tokens: int | None = key(None, whole(1, optional=True))
    enable_prefix_caching: bool = key(True, flag())
    enable_chunked_prefill: bool = key(True, flag())
    async_scheduling: bool | None = key(None, flag(optional=True))
    kv_groups: tuple[KVGroup, ...] | None = key(None, kv_groups())
    beam_turnover: float = key(0.05, fraction(above_zero=True))


@dataclass(frozen=True, slots=True)
class Batching:
    """``[batching]``: how a step is composed and what may enter it.

    ``reserve_predicted_output`` keeps room for the predicted rest of all answers that run.
    From ``prefill_rule`` to ``clip_max_new_tokens`` keys belong to ``prefill-first`` (all but the
    first to its rule ``new-token-ratio``), from ``max_batch_total_tokens`` (``"none"``: the whole
    pool) to ``max_waiting_tokens`` to ``token-budget``; ``pad_to_longest`` belongs to ``static``.
    """

    policy: str = key(
        "mixed-running-first",
        policy(BATCHING),
    )
    long_prefill_token_threshold: int = key(0, whole(0))
    lone_request_exempt_from_threshold: bool = key(True, flag())
    keep_room_for_last_token: bool = key(True, flag())
    watermark: float = key(0.0, fraction())
    scheduler_reserve_full_isl: bool = key(True, flag())
    reserve_predicted_output: bool = key(False, flag())
    prefill_rule: str = key("new-token-ratio", choice("new-token-ratio", "watermark"))
    max_prefill_tokens: int = key(16384, whole(1))
    new_token_ratio: float = key(0.7, fraction(above_zero=True))
    min_new_token_ratio_factor: float = key(0.14, fraction(above_zero=True))
    new_token_ratio_decay_steps: int = key(600, whole(1))
    retract_decode_steps: int = key(20, whole(0))
    clip_max_new_tokens: int = key(4096, whole(1))
    max_batch_total_tokens: int | None = key(None, whole(1, optional=True))
    waiting_served_ratio: float = key(0.3, fraction())
    max_waiting_tokens: int = key(20, whole(0))
    pad_to_longest: bool = key(False, flag())


@dataclass(frozen=True, slots=True)
class Allocator:
    """``[allocator]``: who owns KV memory. ``prefix = "auto"`` follows the engine's switch.

    ``prefix = "radix"`` shares prefixes by SGLang's radix tree instead of vLLM's chained hashes;
    ``engine.block_size`` is then its page size, 1 where it is not given.

    ``contiguous`` reserves one run of token slots a sequence, as long as ``reservation`` says
    (predictions times ``reservation_margin``) and where ``placement`` says; with ``compaction``
    runs slide together where that lets the queue's head in. It has no blocks and shares no
    prefixes. Other kinds leave those keys aside.

    ``samples``: the answers to one prompt are ``requests`` of their own (vLLM v1), or one sequence
    ``group`` whose blocks are shared until they are written (v0).
    """

    kind: str = key("paged", policy(ALLOCATORS))
    reservation: str = key("max", policy(RESERVATIONS))
    reservation_margin: float = key(1.0, above_zero())
    placement: str = key("buddy", named(PLACEMENTS))
    compaction: str = key(
        "none",
        named(
            {
                "none": "Runs stay where they were placed",
                "when-blocked": "Runs slide together where that lets the queue's head in",
            }
        ),
    )
    prefix: str = key(
        "auto",
        named(
            {
                "auto": "hash or none, as engine.enable_prefix_caching says",
                "hash": "Full blocks are shared by the hash of all tokens up to their end (vLLM)",
                "radix": "Runs of tokens are shared in a radix tree (SGLang)",
                "none": "Nothing is shared among requests",
            }
        ),
    )
    freed_blocks_without_key: str = key("front", choice("front", "back"))
    samples: str = key(
        "requests",
        named(
            {
                "requests": "Each answer to a prompt is a request of its own (vLLM v1)",
                "group": "The answers are one group whose blocks are shared until written (v0)",
            }
        ),
    )


@dataclass(frozen=True, slots=True)
class Eviction:
    """``[eviction]``: which unreferenced cached block (or node of a radix tree) goes first.

    ``capacity``: most unreferenced blocks that stay cached; ``"none"``: what the pool has room for;
    ``inf``: evicted content stays findable without memory and comes back at no cost, the ceiling of
    what a cache can give.
    """

    policy: str = key("lru", policy(EVICTION))
    capacity: float | None = key(None, count_or_inf())


@dataclass(frozen=True, slots=True)
class Preemption:
    """``[preemption]``: who gives way when blocks run out, and how.

    ``swap_space`` is host memory a rank (4 GiB: vLLM v0's default); ``swap_layout`` says whether a
    block is a piece of memory for K and V of each layer, or one piece; with ``swap_overlap`` copies
    run beside the step (the longer of the two counts), else before it.
    """

    victim: str = key("by-queue", policy(VICTIMS))
    mode: str = key("recompute", named({**MODES, "recompute": Recompute}))
    swap_space_bytes: int = key(4 * 2**30, size(or_zero=True, optional=False), name="swap_space")
    swap_layout: str = key("per-layer", choice("per-layer", "per-block"))
    swap_overlap: bool = key(False, flag())
    victim_moves_position: str = key("always", choice("always", "scheduled"))


@dataclass(frozen=True, slots=True)
class Queue:
    """``[queue]``: order of the waiting requests.

    ``ageing`` (seconds of work less a second waited) belongs to ``sjf``, ``lpm_max_waiting`` (first
    come first while more wait) to ``longest-prefix-match``, ``quantum`` (tokens) to ``fair``.
    """

    policy: str = key("fcfs", policy(QUEUE_ORDERS))
    ageing: float = key(0.0, number(0))
    lpm_max_waiting: int | None = key(128, whole(0, optional=True))
    quantum: int = key(2048, whole(1))


@dataclass(frozen=True, slots=True)
class Predictor:
    """``[predictor]``: what policies are told about answer lengths.

    ``error`` belongs to ``noisy``, ``bucket_bounds`` and ``bucket_error_rate`` to ``bucketed``,
    ``quantile`` and ``prior`` (tokens, before anything is learnt) to ``quantile``.
    """

    kind: str = key("none", policy(PREDICTORS))
    error: float = key(0.5, number(0))
    bucket_bounds: tuple[int, ...] = key((64, 128, 256, 512, 1024, 2048, 4096), increasing())
    bucket_error_rate: float = key(0.0, fraction())
    quantile: float = key(0.5, fraction(above_zero=True))
    prior: int = key(512, whole(1))


@dataclass(frozen=True, slots=True)
class Retention:
    """``[retention]``: what a KV group keeps, in tokens, the one being computed included.

    ``sinks-recent`` keeps ``sinks`` first and ``recent`` last ones (``budget`` in all), ``fifo``
    the last ``budget``, ``heavy-hitters`` ``recent`` last ones (half the budget by default) and the
    heaviest others; ``heads`` choose for themselves (default: the model's KV heads on a rank), of
    whose scores ``head_agreement`` are common. ``scores``: file of attention scores.
    ``per_scored_token``: what a decode pays for each kept token whose score it updates.
    ``prefix_cache_retention_interval = "none"`` gives every full block of a window group a key;
    0 only those that a resume needs.
    """

    kind: str = key("model", builtin(RETENTION))
    sinks: int = key(4, whole(0))
    recent: int | None = key(None, whole(1, optional=True))
    budget: int | None = key(None, whole(1, optional=True))
    heads: int | None = key(None, whole(1, 1024, optional=True))
    head_agreement: float = key(0.0, fraction())
    scores: str | None = key(None, text("the path of a file of attention scores", optional=True))
    score_ps: int = key(0, duration(optional=False), name="per_scored_token")
    compaction: str = key("none", choice("none", "eager"))
    prefix_cache_retention_interval: int | None = key(0, whole(0, optional=True))


@dataclass(frozen=True, slots=True)
class Slo:
    """``[slo]``: what a request must keep to count as good; unset limits do not bind."""

    ttft_ps: int | None = key(None, duration(), name="ttft")
    tpot_ps: int | None = key(None, duration(), name="tpot")
    e2e_ps: int | None = key(None, duration(), name="e2e")

    def __bool__(self) -> bool:
        return (self.ttft_ps, self.tpot_ps, self.e2e_ps) != (None, None, None)
