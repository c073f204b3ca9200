"""The tables of a scenario that say what runs on what: one dataclass each.

What a key accepts and what it means stands beside its default; ``docs/scenarios.md`` is made from
here. How the engine decides is in :mod:`kvsim.policies.options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from kvsim.policies.option_keys import (
    Rule,
    choice,
    duration,
    flag,
    fraction,
    key,
    size,
    text,
    whole,
)
from kvsim.policies.scheduler_config import KVGroup


def kv_groups() -> Rule:
    """Accept an optional list of KV groups: ``"full"``, or the tokens of a sliding window."""
    allowed = 'a list of "full" and window sizes in tokens, such as ["full", 1024]'

    def parse(value: object) -> object:
        if not isinstance(value, list) or not value:
            raise ValueError(f"expected {allowed}")
        groups = []
        for item in value:
            window = isinstance(item, int) and not isinstance(item, bool) and item >= 1
            if item != "full" and not window:
                raise ValueError(f"expected {allowed}")
            groups.append(KVGroup(None if item == "full" else item))
        return tuple(groups)

    def show(value: object) -> object:
        return [group.sliding_window or "full" for group in cast("tuple[KVGroup, ...]", value)]

    return Rule(parse, allowed, show, optional=True)


@dataclass(frozen=True, slots=True)
class Model:
    """``[model]``: what is served."""

    name: str = key(
        "llama-3.1-8b",
        text("a bundled model name or the path of a config.json"),
        "What is served: a bundled model (`kvsim list models`) or the path of its `config.json`",
    )
    weight_dtype: str = key(
        "auto",
        text("'auto' or a weight format such as 'fp8'"),
        "Format of the weights; `auto`: the model's own",
    )
    mla: str = key(
        "latent",
        choice("latent", "expanded"),
        "What latent attention stores: the latent, or K and V of every head",
    )
    num_kv_heads: int | None = key(
        None,
        whole(1, optional=True),
        "What if: full attention with so many KV heads, the weights as they are; `none`: the "
        "model's own",
        unit="heads",
    )


@dataclass(frozen=True, slots=True)
class Hardware:
    """``[hardware]``: the card."""

    name: str = key(
        "h100-sxm",
        text("a bundled hardware name or the path of a hardware file"),
        "The card: a bundled one (`kvsim list hardware`) or the path of a hardware file",
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """``[memory]``: terms of the pool that are known better than they are worked out, a rank.

    ``total`` replaces the card's memory, the others what is spent before KV. Keys that are left
    open are worked out (docs/memory.md).
    """

    total_bytes: int | None = key(None, size(), "In place of the card's memory", name="total")
    weights_bytes: int | None = key(
        None, size(or_zero=True), "Bytes of the weights", name="weights"
    )
    peak_bytes: int | None = key(
        None, size(or_zero=True), "Bytes of the activation peak", name="peak"
    )
    graphs_bytes: int | None = key(
        None, size(or_zero=True), "Bytes of captured graphs", name="graphs"
    )
    non_torch_bytes: int | None = key(
        None, size(or_zero=True), "Bytes held outside torch", name="non_torch"
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """``[cost]``: where step times come from (docs/calibration.md).

    The times are the terms of ``cost.source = "linear"``.
    """

    source: str = key(
        "auto",
        text("'auto', 'profile', 'datasheet', 'linear', a profile's name or the path of its file"),
        "Where step times come from; `auto`: the hardware's profile, else its datasheet",
    )
    attention_factor: str = key(
        "same",
        choice("same", "own"),
        "`own`: decode attention is charged by the memory layout in use, as far as the "
        "profile knows it; `same`: one kernel for all layouts",
    )
    base_ps: int | None = key(None, duration(), "`linear`: time of each step", name="base")
    per_prefill_token_ps: int | None = key(
        None, duration(), "`linear`: time a prefill token", name="per_prefill_token"
    )
    per_decode_seq_ps: int | None = key(
        None, duration(), "`linear`: time a decoding request", name="per_decode_seq"
    )
    per_context_token_ps: int | None = key(
        None, duration(), "`linear`: time a context token", name="per_context_token"
    )
    swap_alpha_ps: int | None = key(
        None,
        duration(),
        "Time to start one copy between card and host; `none`: 6 us, assumed",
        name="swap_alpha",
    )
    swap_bytes_per_s: int | None = key(
        None,
        size(),
        "Bytes a second between card and host; `none`: the datasheet's",
        name="swap_bandwidth",
    )
    per_copied_token_ps: int | None = key(
        None,
        duration(),
        "Time a token whose KV is copied to another place of the pool; `none`: by the card's "
        "bandwidth",
        name="per_copied_token",
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """``[engine]``: sizes and switches of the engine, named as vLLM names them.

    What is left open is as vLLM chooses for the hardware and the entry point
    (:mod:`kvsim.sim.scenario.setup`), unless the key says otherwise.
    """

    entry_point: str = key(
        "server",
        choice("server", "offline"),
        "Whose defaults fill the keys that are left open: vLLM's API server or its offline class",
    )
    block_size: int | None = key(
        None,
        whole(1, optional=True),
        "Tokens a block; `none`: 16, on a CPU 128, with a radix tree 1",
        unit="tokens",
    )
    num_gpu_blocks_override: int | None = key(
        None,
        whole(2, optional=True),
        "Blocks of the pool, the null block included, in place of what memory would hold",
        unit="blocks",
    )
    kv_memory_bytes: int | None = key(
        None,
        size(),
        "Bytes for KV a rank, in place of what `gpu_memory_utilization` would leave",
        name="kv_memory",
    )
    kv_cache_dtype: str = key(
        "auto",
        text("'auto' or a KV format such as 'fp8'"),
        "Format of the cache; `auto`: the model's",
    )
    tensor_parallel_size: int = key(1, whole(1), "Cards that share each layer", unit="cards")
    pipeline_parallel_size: int = key(
        1,
        whole(1),
        "Groups of cards that share the layers (`kvsim plan` only)",
        unit="groups of cards",
    )
    gpu_memory_utilization: float = key(
        0.9, fraction(above_zero=True), "Share of the card's memory that the engine may use"
    )
    max_model_len: int | None = key(
        None,
        whole(2, optional=True),
        "Most tokens of prompt and output together; `none`: the model's",
        unit="tokens",
    )
    max_num_seqs: int | None = key(
        None,
        whole(1, optional=True),
        "Seats: most requests that run at a time; `none`: vLLM's default for the card",
        unit="requests",
    )
    max_num_batched_tokens: int | None = key(
        None,
        whole(1, optional=True),
        "Token budget of a step; `none`: vLLM's default for the card",
        unit="tokens",
    )
    enable_prefix_caching: bool = key(True, flag(), "Whether prompts share blocks")
    enable_chunked_prefill: bool = key(
        True, flag(), "Whether a prompt may be computed in several steps"
    )
    async_scheduling: bool | None = key(
        None,
        flag(optional=True),
        "Whether a step is scheduled while the one before runs; `none`: as the engine's "
        "default has it",
    )
    kv_groups: tuple[KVGroup, ...] | None = key(
        None,
        kv_groups(),
        "Layers by what they attend to, in the engine's order, in place of the model's own",
        unit="tokens",
    )
    beam_turnover: float = key(
        0.05, fraction(above_zero=True), "Share of the tokens after which beams are drawn anew"
    )


@dataclass(frozen=True, slots=True)
class Slo:
    """``[slo]``: what a request must keep to count as good; unset limits do not bind."""

    ttft_ps: int | None = key(None, duration(), "Longest time to first token", name="ttft")
    tpot_ps: int | None = key(
        None, duration(), "Longest mean time between later tokens", name="tpot"
    )
    e2e_ps: int | None = key(
        None, duration(), "Longest time from arrival to last token", name="e2e"
    )

    def __bool__(self) -> bool:
        return (self.ttft_ps, self.tpot_ps, self.e2e_ps) != (None, None, None)
