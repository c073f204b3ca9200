"""Keys that contradict a batching policy, each refused by name, and keys it has no use for."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kvsim.policies.batching import BATCHING
from kvsim.policies.keys import key_of, name_of
from kvsim.policies.tables import Batching

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import KVGroup
    from kvsim.sim.scenario.scenario import Scenario

WITHOUT_BUDGET: Final = ("iteration-level", "static")
"""Policies whose steps hold whole prompts, bounded by seats and memory alone."""
WHOLE_UP_TO_BUDGET: Final = ("prefill-first", "token-budget")
"""Policies that refuse longer prompts than the budget where they keep them whole."""
_WAITS_FOR_RESULTS: Final = ("prefill-first", "static", "token-budget")
_COUNTS_BLOCKS: Final = ("prefill-first", "token-budget")
_RESERVES: Final = ("prefill-first", "static", "token-budget", "no-evict")
_WHOLE_PROMPTS: Final = ("iteration-level", "static", "token-budget")


def check_batching(scenario: Scenario, groups: tuple[KVGroup, ...], *, is_async: bool) -> None:
    """Refuse keys that contradict the batching; ``groups``: the model's KV.

    Raises
    ------
    ValueError
        With the two keys that contradict each other.
    """
    engine, batching = scenario.engine, scenario.batching
    name = batching.policy
    policy = f"batching.policy = {name!r}"
    if name in WITHOUT_BUDGET and engine.max_num_batched_tokens is not None:
        raise ValueError(
            f"{policy} has no token budget: engine.max_num_batched_tokens "
            f"(={engine.max_num_batched_tokens}) belongs to another policy"
        )
    if name in _WHOLE_PROMPTS and batching.long_prefill_token_threshold > 0:
        raise ValueError(
            f"{policy} has no chunks: batching.long_prefill_token_threshold "
            f"(={batching.long_prefill_token_threshold}) belongs to another policy"
        )
    if name in _WAITS_FOR_RESULTS and is_async:
        raise ValueError(
            f"{policy} waits for the results of a step before it composes the next: set "
            "engine.async_scheduling = false"
        )
    budget, block_size = engine.max_num_batched_tokens, engine.block_size or 1
    if name == "no-evict" and budget is not None and budget < block_size:
        raise ValueError(
            f"{policy} cuts prompts to whole blocks: engine.max_num_batched_tokens (={budget}) "
            f"must be at least engine.block_size (={block_size})"
        )
    if name in _COUNTS_BLOCKS and scenario.allocator.kind == "contiguous":
        raise ValueError(
            f"{policy} counts free blocks: allocator.kind = 'contiguous' has none, choose 'paged'"
        )
    if name in _RESERVES and (len(groups) > 1 or groups[0].sliding_window is not None):
        raise ValueError(
            f"{policy} counts memory for full attention in all layers; this model has windows or "
            "several KV groups"
        )
    if name == "static" and scenario.allocator.prefix == "hash":
        raise ValueError(f"{policy} shares no prefixes: allocator.prefix cannot be 'hash'")
    by_ratio = name == "prefill-first" and batching.prefill_rule == "new-token-ratio"
    if by_ratio and not engine.enable_chunked_prefill:
        raise ValueError(
            f"{policy} with batching.prefill_rule = 'new-token-ratio' cuts prompts: "
            "engine.enable_chunked_prefill cannot be false"
        )


def cuts_prompts(scenario: Scenario) -> bool:
    """Whether prompts may be computed in chunks: the policy's rule, else the engine's switch."""
    batching = scenario.batching
    if batching.policy == "prefill-first":
        return batching.prefill_rule == "new-token-ratio"
    return scenario.engine.enable_chunked_prefill and batching.policy != "token-budget"


def batching_keys_set_aside(scenario: Scenario) -> list[str]:
    """Sentences on switches that the policy cannot follow, and on keys of other built-in policies.

    Strangers may read all keys.
    """
    batching, default = scenario.batching, Batching()
    if batching.policy not in BATCHING.builtins:
        return []
    policy = f"batching.policy = {batching.policy!r}"
    notes = []
    if scenario.engine.enable_chunked_prefill and not cuts_prompts(scenario):
        notes.append(f"{policy} keeps prompts whole: engine.enable_chunked_prefill is unused")
    paged = scenario.allocator.kind == "paged"
    if batching.policy == "static" and paged and scenario.engine.enable_prefix_caching:
        notes.append(f"{policy} shares no prefixes: engine.enable_prefix_caching is unused")
    return notes + [
        f"batching.{name_of(item)} belongs to batching.policy = "
        f"{' or '.join(map(repr, key_of(item).of))}: unused"
        for item in fields(batching)
        if key_of(item).of
        and batching.policy not in key_of(item).of
        and getattr(batching, item.name) != getattr(default, item.name)
    ]
