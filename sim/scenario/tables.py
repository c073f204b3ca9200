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
        "What-if study: full attention with this number of KV heads and unchanged weights; "
        "`none`: those of the model",
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
    """``[memory]``: known terms of the pool on each rank, instead of computed ones.

    ``total`` replaces the memory of the card, and the others replace memory that is used before KV.
    kvsim computes unset terms (docs/memory.md).
    """

    total_bytes: int | None = key(None, size(), "Memory of the card", name="total")
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
        None, size(or_zero=True), "Bytes used outside torch", name="non_torch"
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """``[cost]``: the source of step times (docs/calibration.md).

    The times are the terms of ``cost.source = "linear"``.
    """

    source: str = key(
        "auto",
        text("'auto', 'profile', 'datasheet', 'linear', a profile's name or the path of its file"),
        "Source of step times; `auto`: the profile of the hardware, else its datasheet",
    )
    attention_factor: str = key(
        "same",
        choice("same", "own"),
        "`own`: the cost of decode attention depends on the memory layout, if the profile has "
        "it; `same`: one kernel for all layouts",
    )
    base_ps: int | None = key(None, duration(), "`linear`: time of each step", name="base")
    per_prefill_token_ps: int | None = key(
        None, duration(), "`linear`: time for each prefill token", name="per_prefill_token"
    )
    per_decode_seq_ps: int | None = key(
        None, duration(), "`linear`: time for each decoding request", name="per_decode_seq"
    )
    per_context_token_ps: int | None = key(
        None, duration(), "`linear`: time for each context token", name="per_context_token"
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
        "Bytes a second between card and host; `none`: as in the datasheet",
        name="swap_bandwidth",
    )
    per_copied_token_ps: int | None = key(
        None,
        duration(),
        "Time for each token whose KV is copied within the pool; `none`: by the bandwidth of "
        "the card",
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
        "Defaults for unset keys: those of vLLM's API server or of its offline class",
    )
    block_size: int | None = key(
        None,
        whole(1, optional=True),
        "Tokens in a block; `none`: 16, on a CPU 128, with a radix tree 1",
        unit="tokens",
    )
    num_gpu_blocks_override: int | None = key(
        None,
        whole(2, optional=True),
        "Number of blocks, including the null block, instead of the number that fits",
        unit="blocks",
    )
    kv_memory_bytes: int | None = key(
        None,
        size(),
        "Bytes for KV on each rank, instead of the rest under `gpu_memory_utilization`",
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
        "Largest number of tokens of prompt and output together; `none`: that of the model",
        unit="tokens",
    )
    max_num_seqs: int | None = key(
        None,
        whole(1, optional=True),
        "Largest number of running requests; `none`: vLLM's default for the card",
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
        True, flag(), "Whether the engine can compute a prompt in several steps"
    )
    async_scheduling: bool | None = key(
        None,
        flag(optional=True),
        "Whether the engine schedules a step while the step before it runs; `none`: the "
        "default of the engine",
    )
    kv_groups: tuple[KVGroup, ...] | None = key(
        None,
        kv_groups(),
        "KV groups by their attention, in the order of the engine, instead of those of the model",
        unit="tokens",
    )
    beam_turnover: float = key(
        0.05, fraction(above_zero=True), "Share of the tokens after which beams are drawn again"
    )


@dataclass(frozen=True, slots=True)
class Slo:
    """``[slo]``: limits that a request must meet to count as good; unset limits have no effect."""

    ttft_ps: int | None = key(None, duration(), "Longest time to first token", name="ttft")
    tpot_ps: int | None = key(
        None, duration(), "Longest mean time between later tokens", name="tpot"
    )
    e2e_ps: int | None = key(
        None, duration(), "Longest time from arrival to last token", name="e2e"
    )

    def __bool__(self) -> bool:
        return (self.ttft_ps, self.tpot_ps, self.e2e_ps) != (None, None, None)
