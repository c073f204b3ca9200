"""The options of the policies: a frozen table for each kind, every option written down here alone.

A scenario has these tables, the loader reads them from TOML, ``SchedulerConfig`` holds them, and a
policy reads its own from ``context.config``. A new option is a field here and its use there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvsim.policies.allocators import ALLOCATORS
from kvsim.policies.allocators.placement import PLACEMENTS
from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.batching import BATCHING
from kvsim.policies.eviction import EVICTION
from kvsim.policies.option_keys import (
    above_zero,
    builtin,
    choice,
    count_or_inf,
    duration,
    flag,
    fraction,
    increasing,
    key,
    named,
    number,
    policy,
    size,
    text,
    whole,
)
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.preemption import MODES, VICTIMS, Recompute
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.retention import RETENTION


@dataclass(frozen=True, slots=True)
class Batching:
    """``[batching]``: how a step is composed and what may enter it (docs/batching.md).

    Keys that belong to one policy name it first; under another they have no effect, and a note of
    the run says so.
    """

    policy: str = key("mixed-running-first", policy(BATCHING), "Who composes steps")
    long_prefill_token_threshold: int = key(
        0,
        whole(0),
        "Most tokens of one prompt in a step; 0: no such limit",
        unit="tokens",
        engine="vLLM `long_prefill_token_threshold`",
    )
    lone_request_exempt_from_threshold: bool = key(
        True, flag(), "Whether a request that is alone may pass that limit"
    )
    keep_room_for_last_token: bool = key(
        True, flag(), "Whether the last token's place is kept free within `max_model_len`"
    )
    watermark: float = key(
        0.0, fraction(), "Share of the pool that newcomers leave free", engine="vLLM `watermark`"
    )
    scheduler_reserve_full_isl: bool = key(
        True,
        flag(),
        "Whether a request enters only when its whole prompt fits, not the first chunk alone",
        engine="vLLM `scheduler_reserve_full_isl`",
    )
    reserve_predicted_output: bool = key(
        False, flag(), "Whether room is kept for the predicted rest of all answers that run"
    )
    prefill_rule: str = key(
        "new-token-ratio",
        choice("new-token-ratio", "watermark"),
        "`prefill-first`: what may enter",
        of=("prefill-first",),
    )
    max_prefill_tokens: int = key(
        16384,
        whole(1),
        "`new-token-ratio`: most tokens of one admission round",
        unit="tokens",
        engine="SGLang `--max-prefill-tokens`",
        of=("prefill-first",),
    )
    new_token_ratio: float = key(
        0.7,
        fraction(above_zero=True),
        "`new-token-ratio`: share of what running answers may still take that counts, at first",
        engine="SGLang `SGLANG_INIT_NEW_TOKEN_RATIO`",
        of=("prefill-first",),
    )
    min_new_token_ratio_factor: float = key(
        0.14,
        fraction(above_zero=True),
        "`new-token-ratio`: where the ratio ends, as a share of that",
        engine="SGLang `SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR`",
        of=("prefill-first",),
    )
    new_token_ratio_decay_steps: int = key(
        600,
        whole(1),
        "`new-token-ratio`: decode steps until it is there",
        unit="steps",
        engine="SGLang `SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS`",
        of=("prefill-first",),
    )
    retract_decode_steps: int = key(
        20,
        whole(0),
        "`new-token-ratio`: tokens each sequence is thought to make after a retraction",
        unit="tokens",
        engine="SGLang `SGLANG_RETRACT_DECODE_STEPS`",
        of=("prefill-first",),
    )
    clip_max_new_tokens: int = key(
        4096,
        whole(1),
        "`new-token-ratio`: most tokens of an answer that count",
        unit="tokens",
        engine="SGLang `SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION`",
        of=("prefill-first",),
    )
    max_batch_total_tokens: int | None = key(
        None,
        whole(1, optional=True),
        "`token-budget`: tokens of a batch, answers included; `none`: the whole pool",
        unit="tokens",
        engine="TGI `--max-batch-total-tokens`",
        of=("token-budget",),
    )
    waiting_served_ratio: float = key(
        0.3,
        fraction(),
        "`token-budget`: how many must wait, as a share of those that run",
        engine="TGI `--waiting-served-ratio`",
        of=("token-budget",),
    )
    max_waiting_tokens: int = key(
        20,
        whole(0),
        "`token-budget`: decode steps after which any number will do",
        unit="steps",
        engine="TGI `--max-waiting-tokens`",
        of=("token-budget",),
    )
    pad_to_longest: bool = key(
        False,
        flag(),
        "`static`: whether every row is paid for at the batch's full width",
        of=("static",),
    )


@dataclass(frozen=True, slots=True)
class Allocator:
    """``[allocator]``: who owns KV memory (docs/memory.md).

    ``contiguous`` reserves one run of token slots a sequence; it has no blocks and shares no
    prefixes. Other kinds leave its keys aside. With ``prefix = "radix"`` prefixes are shared by
    SGLang's radix tree instead of vLLM's chained hashes, and ``engine.block_size`` is its page
    size.
    """

    kind: str = key("paged", policy(ALLOCATORS), "Who owns KV memory")
    reservation: str = key("max", policy(RESERVATIONS), "`contiguous`: how long a reservation is")
    reservation_margin: float = key(
        1.0, above_zero(), "`predicted`: what predictions are multiplied with"
    )
    placement: str = key("buddy", named(PLACEMENTS), "`contiguous`: where a reservation goes")
    compaction: str = key(
        "none",
        named(
            {
                "none": "Runs stay where they were placed",
                "when-blocked": "Runs slide together where that lets the queue's head in",
            }
        ),
        "`contiguous`: whether runs slide together where that lets the queue's head in",
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
        "`paged`: how prefixes are found; `auto` follows `engine.enable_prefix_caching`",
    )
    freed_blocks_without_key: str = key(
        "front",
        choice("front", "back"),
        "Where the free queue takes blocks that nothing can find any more",
    )
    samples: str = key(
        "requests",
        named(
            {
                "requests": "Each answer to a prompt is a request of its own (vLLM v1)",
                "group": "The answers are one group whose blocks are shared until written (v0)",
            }
        ),
        "What several answers to one prompt are: requests of their own (vLLM v1), or one "
        "group whose blocks are shared until written (v0)",
    )

    @property
    def index(self) -> Literal["hash", "radix"]:
        """How prefixes are found, where they are cached."""
        return "radix" if self.prefix == "radix" else "hash"


@dataclass(frozen=True, slots=True)
class Eviction:
    """``[eviction]``: which unreferenced cached block goes first (docs/eviction.md)."""

    policy: str = key(
        "lru",
        policy(EVICTION),
        "Which unreferenced cached block, or node of a radix tree, goes first",
        engine="SGLang `--radix-eviction-policy`",
    )
    capacity: float | None = key(
        None,
        count_or_inf(),
        "Most unreferenced blocks that stay cached; `none`: what the pool has room for; "
        "`inf`: evicted content comes back at no cost, the ceiling of what a cache can give",
        unit="blocks",
    )


@dataclass(frozen=True, slots=True)
class Preemption:
    """``[preemption]``: who gives way when blocks run out, and how (docs/preemption.md)."""

    victim: str = key("by-queue", policy(VICTIMS), "Who gives way when blocks run out")
    mode: str = key(
        "recompute",
        named({**MODES, "recompute": Recompute}),
        "What becomes of a victim's KV",
        engine="vLLM v0 `preemption_mode`",
    )
    swap_space_bytes: int = key(
        4 * 2**30,
        size(or_zero=True, optional=False),
        "Host memory for swapped blocks, a rank",
        name="swap_space",
        engine="vLLM v0 `swap_space`",
    )
    swap_layout: str = key(
        "per-layer",
        choice("per-layer", "per-block"),
        "What a block is copied in: K and V of each layer apart, or one piece",
    )
    swap_overlap: bool = key(
        False, flag(), "Whether copies run beside the step (the longer counts) or before it"
    )
    victim_moves_position: str = key(
        "always",
        choice("always", "scheduled"),
        "Queue order `priority`: whether any earlier victim moves the walk's position back, "
        "or only one already scheduled",
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """``[queue]``: order of the waiting requests (docs/queue.md)."""

    policy: str = key(
        "fcfs",
        policy(QUEUE_ORDERS),
        "In which order requests wait",
        engine="vLLM `--scheduling-policy`, SGLang `--schedule-policy`",
    )
    ageing: float = key(
        0.0, number(0), "`sjf`: seconds of work less a second waited", unit="s of work a s"
    )
    lpm_max_waiting: int | None = key(
        128,
        whole(0, optional=True),
        "`longest-prefix-match`: first come, first served while more wait; `none`: never",
        unit="requests",
    )
    quantum: int = key(2048, whole(1), "`fair`: tokens a turn", unit="tokens")


@dataclass(frozen=True, slots=True)
class Predictor:
    """``[predictor]``: what policies are told about answer lengths (docs/queue.md)."""

    kind: str = key("none", policy(PREDICTORS), "What policies are told about answer lengths")
    error: float = key(0.5, number(0), "`noisy`: spread of the error, the sigma of a log-normal")
    bucket_bounds: tuple[int, ...] = key(
        (64, 128, 256, 512, 1024, 2048, 4096),
        increasing(),
        "`bucketed`: upper ends of the buckets, in tokens",
        unit="tokens",
    )
    bucket_error_rate: float = key(
        0.0, fraction(), "`bucketed`: share of requests put into a neighbouring bucket"
    )
    quantile: float = key(
        0.5, fraction(above_zero=True), "`quantile`: which quantile of finished answers"
    )
    prior: int = key(
        512, whole(1), "`quantile`: guess in tokens until enough answers have ended", unit="tokens"
    )


@dataclass(frozen=True, slots=True)
class Retention:
    """``[retention]``: what a KV group keeps of a sequence (docs/retention.md).

    Whatever is dropped, answers are as long as the trace says: quality is not simulated.
    """

    kind: str = key("model", builtin(RETENTION), "What a KV group keeps of a sequence")
    sinks: int = key(
        4,
        whole(0),
        "`sinks-recent`: first tokens that are kept",
        unit="tokens",
        of=("sinks-recent",),
    )
    recent: int | None = key(
        None,
        whole(1, optional=True),
        "Last tokens kept; `none`: what `budget` leaves, or half of it for `heavy-hitters`",
        unit="tokens",
        of=("sinks-recent", "heavy-hitters"),
    )
    budget: int | None = key(
        None,
        whole(1, optional=True),
        "Tokens that are kept in all, the one being computed included",
        unit="tokens",
        of=("sinks-recent", "fifo", "heavy-hitters"),
    )
    heads: int | None = key(
        None,
        whole(1, 1024, optional=True),
        "`heavy-hitters`: heads that choose, each for itself; `none`: the model's KV heads a rank",
        unit="heads",
        of=("heavy-hitters",),
    )
    head_agreement: float = key(
        0.0,
        fraction(),
        "`heavy-hitters`: share of the scores that all heads have in common",
        of=("heavy-hitters",),
    )
    scores: str | None = key(
        None,
        text("the path of a file of attention scores", optional=True),
        "`heavy-hitters`: file of attention scores; `none`: drawn ones",
        of=("sinks-recent", "fifo", "heavy-hitters"),
    )
    score_ps: int = key(
        0,
        duration(optional=False),
        "`heavy-hitters`: time a decode pays for each kept token whose score it updates",
        name="per_scored_token",
        of=("heavy-hitters",),
    )
    compaction: str = key(
        "none",
        choice("none", "eager"),
        "Whether kept tokens are packed into fewer blocks",
        of=("sinks-recent", "fifo", "heavy-hitters"),
    )
    prefix_cache_retention_interval: int | None = key(
        0,
        whole(0, optional=True),
        "Windows: beside what a resume needs, the tail of each interval of so many tokens stays "
        "findable; 0: no interval's, `none`: every block",
        unit="tokens",
        engine="vLLM `prefix_cache_retention_interval`",
    )

    @property
    def total_budget(self) -> int | None:
        """Tokens that are kept in all; ``None`` where no key says it."""
        if self.kind == "sinks-recent" and self.budget is None and self.recent is not None:
            return self.sinks + self.recent
        return self.budget

    def budget_and_recent(self) -> tuple[int, int]:
        """Tokens that are kept in all, and how many of them are the last ones; the keys agree."""
        budget = self.total_budget
        assert budget is not None, "what drops tokens has a budget"
        if self.kind == "heavy-hitters":
            return budget, max(1, budget // 2) if self.recent is None else self.recent
        return budget, budget - (self.sinks if self.kind == "sinks-recent" else 0)
