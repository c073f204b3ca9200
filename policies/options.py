"""The options of the policies: a frozen table for each kind; each option is declared only here.

A scenario has these tables. The loader reads them from TOML, and ``SchedulerConfig`` holds them. A
policy reads its own table from ``context.config``. A new option is one field here and its use in
the policy.
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
    """``[batching]``: how a step is composed and which requests are admitted (docs/batching.md).

    A key of one policy starts its meaning with the policy's name. Under another policy the key has
    no effect, and a note of the run says so.
    """

    policy: str = key("mixed-running-first", policy(BATCHING), "How a step is composed")
    long_prefill_token_threshold: int = key(
        0,
        whole(0),
        "Most tokens of one prompt in a step; 0: no such limit",
        unit="tokens",
        engine="vLLM `long_prefill_token_threshold`",
    )
    lone_request_exempt_from_threshold: bool = key(
        True, flag(), "Whether a request that runs alone may exceed that limit"
    )
    keep_room_for_last_token: bool = key(
        True, flag(), "Whether one token of `max_model_len` is kept free for the last token"
    )
    watermark: float = key(
        0.0,
        fraction(),
        "Share of the pool that an admission must leave free",
        engine="vLLM `watermark`",
    )
    scheduler_reserve_full_isl: bool = key(
        True,
        flag(),
        "Whether admission needs room for the whole prompt, or only for its first chunk",
        engine="vLLM `scheduler_reserve_full_isl`",
    )
    reserve_predicted_output: bool = key(
        False, flag(), "Whether room is kept for the predicted remaining output of running requests"
    )
    prefill_rule: str = key(
        "new-token-ratio",
        choice("new-token-ratio", "watermark"),
        "`prefill-first`: which rule admits requests",
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
        "`new-token-ratio`: first ratio: counted share of the tokens that running requests may add",
        engine="SGLang `SGLANG_INIT_NEW_TOKEN_RATIO`",
        of=("prefill-first",),
    )
    min_new_token_ratio_factor: float = key(
        0.14,
        fraction(above_zero=True),
        "`new-token-ratio`: smallest ratio, as a share of the first ratio",
        engine="SGLang `SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR`",
        of=("prefill-first",),
    )
    new_token_ratio_decay_steps: int = key(
        600,
        whole(1),
        "`new-token-ratio`: decode steps until the smallest ratio is reached",
        unit="steps",
        engine="SGLang `SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS`",
        of=("prefill-first",),
    )
    retract_decode_steps: int = key(
        20,
        whole(0),
        "`new-token-ratio`: tokens that each sequence is assumed to add after a retraction",
        unit="tokens",
        engine="SGLang `SGLANG_RETRACT_DECODE_STEPS`",
        of=("prefill-first",),
    )
    clip_max_new_tokens: int = key(
        4096,
        whole(1),
        "`new-token-ratio`: most output tokens of a request that count",
        unit="tokens",
        engine="SGLang `SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION`",
        of=("prefill-first",),
    )
    max_batch_total_tokens: int | None = key(
        None,
        whole(1, optional=True),
        "`token-budget`: tokens of a batch, outputs included; `none`: the whole pool",
        unit="tokens",
        engine="TGI `--max-batch-total-tokens`",
        of=("token-budget",),
    )
    waiting_served_ratio: float = key(
        0.3,
        fraction(),
        "`token-budget`: how many requests must wait, as a share of the running requests",
        engine="TGI `--waiting-served-ratio`",
        of=("token-budget",),
    )
    max_waiting_tokens: int = key(
        20,
        whole(0),
        "`token-budget`: decode steps after which any number of waiting requests is enough",
        unit="steps",
        engine="TGI `--max-waiting-tokens`",
        of=("token-budget",),
    )
    pad_to_longest: bool = key(
        False,
        flag(),
        "`static`: whether every row costs as much as the longest row of the batch",
        of=("static",),
    )


@dataclass(frozen=True, slots=True)
class Allocator:
    """``[allocator]``: how KV memory is allocated (docs/memory.md).

    ``contiguous`` reserves one run of token slots for each sequence. It has no blocks and shares no
    prefixes. The other kinds do not read its keys. With ``prefix = "radix"`` prefixes are shared by
    SGLang's radix tree instead of vLLM's chained hashes, and ``engine.block_size`` is the page size
    of the tree.
    """

    kind: str = key("paged", policy(ALLOCATORS), "How KV memory is allocated")
    reservation: str = key("max", policy(RESERVATIONS), "`contiguous`: length of a reservation")
    reservation_margin: float = key(
        1.0, above_zero(), "`predicted`: factor that predictions are multiplied by"
    )
    placement: str = key("buddy", named(PLACEMENTS), "`contiguous`: where a reservation goes")
    compaction: str = key(
        "none",
        named(
            {
                "none": "Runs stay where they were placed",
                "when-blocked": "Runs slide together if that makes room for the queue's head",
            }
        ),
        "`contiguous`: whether runs slide together to make room for the head of the queue",
    )
    prefix: str = key(
        "auto",
        named(
            {
                "auto": "hash or none, as engine.enable_prefix_caching says",
                "hash": "Full blocks are shared by the hash of all tokens up to their end (vLLM)",
                "radix": "Runs of tokens are shared in a radix tree (SGLang)",
                "none": "Requests share no blocks",
            }
        ),
        "`paged`: how prefixes are found; `auto` follows `engine.enable_prefix_caching`",
    )
    freed_blocks_without_key: str = key(
        "front",
        choice("front", "back"),
        "Where the free queue puts freed blocks that have no key",
    )
    samples: str = key(
        "requests",
        named(
            {
                "requests": "Each output of a prompt is a separate request (vLLM v1)",
                "group": "The outputs are one group, sharing blocks until they are written (v0)",
            }
        ),
        "What several outputs of one prompt are: separate requests (vLLM v1), or one "
        "group, which shares blocks until they are written (v0)",
    )

    @property
    def index(self) -> Literal["hash", "radix"]:
        """How prefixes are found, where prefixes are cached."""
        return "radix" if self.prefix == "radix" else "hash"


@dataclass(frozen=True, slots=True)
class Eviction:
    """``[eviction]``: which unreferenced cached block is evicted first (docs/eviction.md)."""

    policy: str = key(
        "lru",
        policy(EVICTION),
        "Which unreferenced cached block, or node of a radix tree, is evicted first",
        engine="SGLang `--radix-eviction-policy`",
    )
    capacity: float | None = key(
        None,
        count_or_inf(),
        "Most unreferenced blocks that stay cached; `none`: as many as the pool holds; "
        "`inf`: evicted content comes back at no cost (upper bound for any cache)",
        unit="blocks",
    )


@dataclass(frozen=True, slots=True)
class Preemption:
    """``[preemption]``: which request is preempted when blocks run out (docs/preemption.md)."""

    victim: str = key("by-queue", policy(VICTIMS), "Which request is preempted when blocks run out")
    mode: str = key(
        "recompute",
        named({**MODES, "recompute": Recompute}),
        "What happens to a victim's KV",
        engine="vLLM v0 `preemption_mode`",
    )
    swap_space_bytes: int = key(
        4 * 2**30,
        size(or_zero=True, optional=False),
        "Host memory for swapped blocks, for each rank",
        name="swap_space",
        engine="vLLM v0 `swap_space`",
    )
    swap_layout: str = key(
        "per-layer",
        choice("per-layer", "per-block"),
        "How a block is copied: K and V of each layer separately, or in one piece",
    )
    swap_overlap: bool = key(
        False,
        flag(),
        "Whether copies run in parallel to the step (the longer time counts) or before it",
    )
    victim_moves_position: str = key(
        "always",
        choice("always", "scheduled"),
        "Queue order `priority`: whether each earlier victim moves the position of the scheduling "
        "loop back, or only a victim already scheduled",
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
        0.0,
        number(0),
        "`sjf`: seconds of work subtracted for each second waited",
        unit="s of work a s",
    )
    lpm_max_waiting: int | None = key(
        128,
        whole(0, optional=True),
        "`longest-prefix-match`: first come, first served while more requests wait; `none`: never",
        unit="requests",
    )
    quantum: int = key(2048, whole(1), "`fair`: tokens a turn", unit="tokens")


@dataclass(frozen=True, slots=True)
class Predictor:
    """``[predictor]``: the predictions of output lengths that policies get (docs/queue.md)."""

    kind: str = key("none", policy(PREDICTORS), "Predictions of output lengths for policies")
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
        0.5, fraction(above_zero=True), "`quantile`: which quantile of the finished outputs"
    )
    prior: int = key(
        512,
        whole(1),
        "`quantile`: prediction in tokens until enough outputs have finished",
        unit="tokens",
    )


@dataclass(frozen=True, slots=True)
class Retention:
    """``[retention]``: which tokens a KV group keeps of a sequence (docs/retention.md).

    Output lengths always come from the trace, whatever is dropped. Output quality is not simulated.
    """

    kind: str = key("model", builtin(RETENTION), "Which tokens a KV group keeps of a sequence")
    sinks: int = key(
        4,
        whole(0),
        "`sinks-recent`: number of first tokens kept",
        unit="tokens",
        of=("sinks-recent",),
    )
    recent: int | None = key(
        None,
        whole(1, optional=True),
        "Number of last tokens kept; `none`: the rest of `budget`, or half of it (`heavy-hitters`)",
        unit="tokens",
        of=("sinks-recent", "heavy-hitters"),
    )
    budget: int | None = key(
        None,
        whole(1, optional=True),
        "Tokens kept in total, including the one being computed",
        unit="tokens",
        of=("sinks-recent", "fifo", "heavy-hitters"),
    )
    heads: int | None = key(
        None,
        whole(1, 1024, optional=True),
        "`heavy-hitters`: heads that choose separately; `none`: the model's KV heads of a rank",
        unit="heads",
        of=("heavy-hitters",),
    )
    head_agreement: float = key(
        0.0,
        fraction(),
        "`heavy-hitters`: share of the scores that are equal in all heads",
        of=("heavy-hitters",),
    )
    scores: str | None = key(
        None,
        text("the path of a file of attention scores", optional=True),
        "`heavy-hitters`: file of attention scores; `none`: random scores",
        of=("sinks-recent", "fifo", "heavy-hitters"),
    )
    score_ps: int = key(
        0,
        duration(optional=False),
        "`heavy-hitters`: time of a decode for each kept token with an updated score",
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
        "Windows: interval in tokens. The tail of each interval stays findable, beside what a "
        "resume needs; 0: no interval, `none`: every block",
        unit="tokens",
        engine="vLLM `prefix_cache_retention_interval`",
    )

    @property
    def total_budget(self) -> int | None:
        """Number of tokens kept in total; ``None`` where no key gives it."""
        if self.kind == "sinks-recent" and self.budget is None and self.recent is not None:
            return self.sinks + self.recent
        return self.budget

    def budget_and_recent(self) -> tuple[int, int]:
        """Return the number of tokens kept in total, and how many of them are the last ones."""
        budget = self.total_budget
        assert budget is not None, "what drops tokens has a budget"
        if self.kind == "heavy-hitters":
            return budget, max(1, budget // 2) if self.recent is None else self.recent
        return budget, budget - (self.sinks if self.kind == "sinks-recent" else 0)
