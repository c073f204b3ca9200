"""Keys that contradict a batching policy, each refused by name, and keys it has no use for."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kvsim.policies.batching import BATCHING as POLICIES
from kvsim.policies.option_keys import key_of, name_of
from kvsim.policies.options import Batching
from kvsim.sim.scenario.checks.check import Check, has_windows

if TYPE_CHECKING:
    from dataclasses import Field

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.checks.check import Checks
    from kvsim.sim.scenario.scenario import Scenario

WITHOUT_BUDGET: Final = ("iteration-level", "static")
"""Policies whose steps hold whole prompts, bounded by max_num_seqs and memory alone."""
WHOLE_UP_TO_BUDGET: Final = ("prefill-first", "token-budget")
"""Policies that refuse longer prompts than the budget where they keep them whole."""
_WAITS_FOR_RESULTS: Final = ("prefill-first", "static", "token-budget")
_COUNTS_BLOCKS: Final = ("prefill-first", "token-budget")
_RESERVES: Final = ("prefill-first", "static", "token-budget", "no-evict")
_WHOLE_PROMPTS: Final = ("iteration-level", "static", "token-budget")


def cuts_prompts(scenario: Scenario) -> bool:
    """Whether prompts may be computed in chunks: the policy's rule, else the engine's switch."""
    batching = scenario.batching
    if batching.policy == "prefill-first":
        return batching.prefill_rule == "new-token-ratio"
    return scenario.engine.enable_chunked_prefill and batching.policy != "token-budget"


def _policy(scenario: Scenario) -> str:
    return f"batching.policy = {scenario.batching.policy!r}"


def cuts_by_ratio(scenario: Scenario) -> bool:
    """Whether prompts enter, and are cut, by SGLang's ratio of new tokens."""
    batching = scenario.batching
    return batching.policy == "prefill-first" and batching.prefill_rule == "new-token-ratio"


def _unless_read(item: Field[object]) -> Check[Scenario, SchedulerConfig]:
    """Row of a key of some policies that is changed under another built-in one."""
    name, of = item.name, key_of(item).of
    return Check(
        "batching",
        lambda s, _: (
            s.batching.policy in POLICIES.builtins
            and s.batching.policy not in of
            and getattr(s.batching, name) != getattr(Batching(), name)
        ),
        lambda _s, _: (
            f"batching.{name_of(item)} belongs to batching.policy = "
            f"{' or '.join(map(repr, of))}: unused"
        ),
    )


BATCHING: Final[Checks] = (
    Check(
        "batching engine",
        lambda s, _: (
            s.batching.policy in WITHOUT_BUDGET and s.engine.max_num_batched_tokens is not None
        ),
        lambda s, _: (
            f"{_policy(s)} has no token budget: engine.max_num_batched_tokens "
            f"(={s.engine.max_num_batched_tokens}) belongs to another policy"
        ),
    ),
    Check(
        "batching",
        lambda s, _: (
            s.batching.policy in _WHOLE_PROMPTS and s.batching.long_prefill_token_threshold > 0
        ),
        lambda s, _: (
            f"{_policy(s)} has no chunks: batching.long_prefill_token_threshold "
            f"(={s.batching.long_prefill_token_threshold}) belongs to another policy"
        ),
    ),
    Check(  # vLLM 0.32.0 does not start either
        "batching engine",
        lambda s, c: (
            s.batching.policy == "mixed-running-first"
            and s.batching.long_prefill_token_threshold > c.max_model_len
        ),
        lambda s, c: (
            "batching.long_prefill_token_threshold "
            f"(={s.batching.long_prefill_token_threshold}) is above engine.max_model_len "
            f"(={c.max_model_len}): lower it, or set it to 0, no such limit"
        ),
    ),
    Check(
        "batching engine",
        lambda s, c: s.batching.policy in _WAITS_FOR_RESULTS and c.async_scheduling,
        lambda s, _: (
            f"{_policy(s)} waits for the results of a step before it composes the next: set "
            "engine.async_scheduling = false"
        ),
    ),
    Check(
        "batching engine",
        lambda s, _: (
            s.batching.policy == "no-evict"
            and s.engine.max_num_batched_tokens is not None
            and s.engine.max_num_batched_tokens < (s.engine.block_size or 1)
        ),
        lambda s, _: (
            f"{_policy(s)} cuts prompts to whole blocks: engine.max_num_batched_tokens "
            f"(={s.engine.max_num_batched_tokens}) must be at least engine.block_size "
            f"(={s.engine.block_size})"
        ),
    ),
    Check(
        "batching allocator",
        lambda s, _: s.batching.policy in _COUNTS_BLOCKS and s.allocator.kind == "contiguous",
        lambda s, _: (
            f"{_policy(s)} counts free blocks: allocator.kind = 'contiguous' has none, choose "
            "'paged'"
        ),
    ),
    Check(
        "batching",
        lambda s, c: s.batching.policy in _RESERVES and has_windows(c),
        lambda s, _: (
            f"{_policy(s)} counts memory for full attention in all layers; this model has windows "
            "or several KV groups"
        ),
    ),
    Check(
        "batching allocator",
        lambda s, _: s.batching.policy == "static" and s.allocator.prefix == "hash",
        lambda s, _: f"{_policy(s)} shares no prefixes: allocator.prefix cannot be 'hash'",
    ),
    Check(
        "batching engine",
        lambda s, _: cuts_by_ratio(s) and not s.engine.enable_chunked_prefill,
        lambda s, _: (
            f"{_policy(s)} with batching.prefill_rule = 'new-token-ratio' cuts prompts: "
            "engine.enable_chunked_prefill cannot be false"
        ),
    ),
)

BATCHING_UNUSED: Final[Checks] = (
    Check(
        "batching engine",
        lambda s, _: (
            s.batching.policy in POLICIES.builtins
            and s.engine.enable_chunked_prefill
            and not cuts_prompts(s)
        ),
        lambda s, _: f"{_policy(s)} keeps prompts whole: engine.enable_chunked_prefill is unused",
    ),
    Check(
        "batching engine allocator",
        lambda s, _: (
            s.batching.policy == "static"
            and s.allocator.kind == "paged"
            and s.engine.enable_prefix_caching
        ),
        lambda s, _: f"{_policy(s)} shares no prefixes: engine.enable_prefix_caching is unused",
    ),
    *(_unless_read(item) for item in fields(Batching) if key_of(item).of),
)
"""Switches that a built-in policy cannot follow, and keys of others; policies from plug-ins may
read all keys.
"""
