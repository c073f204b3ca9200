"""Keys that contradict a batching policy, each refused by name, and keys it has no use for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.batching import BATCHING as POLICIES
from kvsim.sim.scenario.checks.check import Check, has_windows
from kvsim.sim.scenario.policy_tables import Batching

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.checks.check import Checks
    from kvsim.sim.scenario.scenario import Scenario

WITHOUT_BUDGET: Final = ("iteration-level", "static")
"""Policies whose steps hold whole prompts, bounded by seats and memory alone."""
WHOLE_UP_TO_BUDGET: Final = ("prefill-first", "token-budget")
"""Policies that refuse longer prompts than the budget where they keep them whole."""
_WAITS_FOR_RESULTS: Final = ("prefill-first", "static", "token-budget")
_COUNTS_BLOCKS: Final = ("prefill-first", "token-budget")
_RESERVES: Final = ("prefill-first", "static", "token-budget", "no-evict")
_KEYS: Final = {
    "prefill_rule": "prefill-first",
    "max_prefill_tokens": "prefill-first",
    "new_token_ratio": "prefill-first",
    "min_new_token_ratio_factor": "prefill-first",
    "new_token_ratio_decay_steps": "prefill-first",
    "retract_decode_steps": "prefill-first",
    "clip_max_new_tokens": "prefill-first",
    "max_batch_total_tokens": "token-budget",
    "waiting_served_ratio": "token-budget",
    "max_waiting_tokens": "token-budget",
    "pad_to_longest": "static",
}
"""Keys of ``[batching]`` that one policy alone reads."""
_WHOLE_PROMPTS: Final = ("iteration-level", "static", "token-budget")


def cuts_prompts(scenario: Scenario) -> bool:
    """Whether prompts may be computed in chunks: the policy's rule, else the engine's switch."""
    batching = scenario.batching
    if batching.policy == "prefill-first":
        return batching.prefill_rule == "new-token-ratio"
    return scenario.engine.enable_chunked_prefill and batching.policy != "token-budget"


def _policy(scenario: Scenario) -> str:
    return f"batching.policy = {scenario.batching.policy!r}"


def _cuts_by_ratio(scenario: Scenario) -> bool:
    batching = scenario.batching
    return batching.policy == "prefill-first" and batching.prefill_rule == "new-token-ratio"


def _unless_read(key: str) -> Check[Scenario, SchedulerConfig]:
    """Row of a key of one policy that is changed under another built-in one."""
    return Check(
        "batching",
        lambda s, _: (
            s.batching.policy in POLICIES.builtins
            and s.batching.policy != _KEYS[key]
            and getattr(s.batching, key) != getattr(Batching(), key)
        ),
        lambda _s, _: f"batching.{key} belongs to batching.policy = {_KEYS[key]!r}: unused",
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
        lambda s, _: _cuts_by_ratio(s) and not s.engine.enable_chunked_prefill,
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
    *(_unless_read(key) for key in _KEYS),
)
"""Switches that a built-in policy cannot follow, and keys of others; policies from plug-ins may
read all keys.
"""
