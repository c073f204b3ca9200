"""What ``[retention]`` asks for: its budget, what it does not go with, and keys left aside."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kvsim.policies.option_keys import key_of, name_of
from kvsim.policies.options import Retention
from kvsim.sim.scenario.checks.check import Check, has_windows

if TYPE_CHECKING:
    from dataclasses import Field

    from kvsim.policies.retention import AttentionScores
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.checks.check import Checks
    from kvsim.sim.scenario.scenario import Scenario

_BATCHINGS: Final = ("mixed-running-first", "iteration-level")


def _kind(scenario: Scenario) -> str:
    return f"retention.kind = {scenario.retention.kind!r}"


def _interval(scenario: Scenario) -> str:
    interval = scenario.retention.prefix_cache_retention_interval
    return f"retention.prefix_cache_retention_interval (={interval})"


def _drops(scenario: Scenario) -> bool:
    return scenario.retention.kind != "model"


def _sinks_leave(table: Retention) -> int:
    """Tokens of the budget of ``sinks-recent`` that are not sinks."""
    return (table.total_budget or 0) - table.sinks


def _changed(table: Retention, key: str) -> bool:
    return bool(getattr(table, key) != getattr(Retention(), key))


def _unless_read(item: Field[object]) -> Check[Scenario, SchedulerConfig]:
    """Row of a key that the kind does not read."""
    return Check(
        "retention",
        lambda s, _: s.retention.kind not in key_of(item).of and _changed(s.retention, item.name),
        lambda s, _: f"{_kind(s)}: retention.{name_of(item)} is unused",
    )


def _unless_drawn(key: str) -> Check[Scenario, SchedulerConfig]:
    """Row of a key about heads, of which a file of scores has none."""
    return Check(
        "retention",
        lambda s, _: (
            s.retention.kind == "heavy-hitters"
            and s.retention.scores is not None
            and _changed(s.retention, key)
        ),
        lambda _s, _: f"retention.scores has one score a layer: retention.{key} is unused",
    )


RETENTION: Final[Checks] = (
    Check(  # this one and the next as vLLM 0.32.0 when it starts
        "retention",
        lambda s, c: (
            bool(s.retention.prefix_cache_retention_interval)
            and all(group.sliding_window is None for group in c.kv_groups)
        ),
        lambda s, _: (
            f"{_interval(s)} says which blocks of a sliding window stay findable; this model has "
            "none: set it to 0 or 'none'"
        ),
    ),
    Check(
        "retention engine",
        lambda s, c: bool((s.retention.prefix_cache_retention_interval or 0) % c.block_size),
        lambda s, c: f"{_interval(s)} must be a multiple of engine.block_size (={c.block_size})",
    ),
    Check(
        "retention",
        lambda s, _: _drops(s) and s.retention.total_budget is None,
        lambda s, _: (
            f"{_kind(s)} needs retention.budget"
            f"{' or retention.recent' if s.retention.kind == 'sinks-recent' else ''}, in tokens"
        ),
    ),
    Check(
        "retention",
        lambda s, _: s.retention.kind == "sinks-recent" and _sinks_leave(s.retention) <= 0,
        lambda s, _: (
            f"retention.budget (={s.retention.total_budget}) must be more than retention.sinks "
            f"(={s.retention.sinks}): the token being computed is kept, too"
        ),
    ),
    Check(
        "retention",
        lambda s, _: (
            s.retention.kind == "sinks-recent"
            and s.retention.recent not in {None, _sinks_leave(s.retention)}
        ),
        lambda s, _: (
            f"retention.sinks (={s.retention.sinks}) and retention.recent "
            f"(={s.retention.recent}) are not the retention.budget (={s.retention.budget}): leave "
            "one out"
        ),
    ),
    Check(
        "retention",
        lambda s, _: (
            s.retention.kind == "heavy-hitters"
            and (s.retention.recent or 0) > (s.retention.budget or 0)
        ),
        lambda s, _: (
            f"retention.recent (={s.retention.recent}) is part of retention.budget "
            f"(={s.retention.budget}): lower it"
        ),
    ),
    Check(
        "retention allocator",
        lambda s, _: _drops(s) and (s.allocator.kind != "paged" or s.allocator.prefix == "radix"),
        lambda s, _: (
            f"{_kind(s)} drops tokens from block tables: it needs allocator.kind = 'paged', with "
            "allocator.prefix = 'hash', 'none' or 'auto'"
        ),
    ),
    Check(
        "retention",
        lambda s, c: _drops(s) and has_windows(c),
        lambda s, _: (
            f"{_kind(s)} says what full attention keeps; this model has windows or several KV "
            "groups: choose retention.kind = 'model'"
        ),
    ),
    Check(
        "retention batching",
        lambda s, _: _drops(s) and s.batching.policy not in _BATCHINGS,
        lambda s, _: (
            f"batching.policy = {s.batching.policy!r} counts memory for all tokens, {_kind(s)} "
            f"drops some: choose {' or '.join(map(repr, _BATCHINGS))}"
        ),
    ),
    Check(
        "retention allocator",
        lambda s, _: _drops(s) and s.allocator.samples == "group",
        lambda s, _: (
            f"allocator.samples = 'group' shares blocks of whole contexts, {_kind(s)} drops tokens "
            "from them: set allocator.samples = 'requests'"
        ),
    ),
    Check(
        "retention batching",
        lambda s, _: _drops(s) and s.batching.reserve_predicted_output,
        lambda s, _: (
            f"batching.reserve_predicted_output counts memory for all tokens, {_kind(s)} drops "
            "some: set it to false"
        ),
    ),
    Check(
        "retention preemption",
        lambda s, _: _drops(s) and s.preemption.mode != "recompute",
        lambda s, _: (
            f"{_kind(s)} leaves gaps in block tables, which preemption.mode = "
            f"{s.preemption.mode!r} does not copy: choose 'recompute'"
        ),
    ),
    Check(
        "retention eviction",
        lambda s, c: _drops(s) and c.enable_prefix_caching and s.eviction.capacity == float("inf"),
        lambda s, _: (
            f"eviction.capacity = inf brings back what full attention needs, {_kind(s)} needs less"
            ": give a number of blocks, or 'none'"
        ),
    ),
)

RETENTION_UNUSED: Final[Checks] = (
    *(_unless_read(item) for item in fields(Retention) if key_of(item).of),
    *(_unless_drawn(key) for key in ("heads", "head_agreement")),
)


def retention_notes(
    scenario: Scenario, config: SchedulerConfig, scores: AttentionScores | None, num_layers: int
) -> list[str]:
    """What is assumed of chosen retention, in sentences; ``num_layers``: of the model."""
    if config.keeps_everything:
        return []
    notes = []
    if scores is not None and scores.num_layers != num_layers:
        notes.append(
            f"retention.scores has {scores.num_layers:,} layers, the model has {num_layers:,}: "
            "means are over those of the file"
        )
    if config.retention.kind == "heavy-hitters":
        if config.retention.scores is None:
            notes.append(
                "retention.kind = 'heavy-hitters' without retention.scores: which tokens are heavy "
                f"is drawn (assumed), {config.retention_heads} heads choose, a share of "
                f"{config.retention.head_agreement:g} of their scores is common"
            )
        if not config.retention.score_ps:
            notes.append("retention.per_scored_token = 0: keeping scores takes no time (assumed)")
    if scenario.cost.source == "linear" and scenario.cost.per_context_token_ps:
        notes.append(
            "cost.per_context_token counts the whole context, dropped tokens included, as it does "
            "for windows"
        )
    return notes
