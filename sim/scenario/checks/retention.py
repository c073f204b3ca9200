"""What ``[retention]`` asks for: its budget, what it does not go with, and keys left aside."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kvsim.policies.keys import key_of, name_of
from kvsim.policies.tables import Retention

if TYPE_CHECKING:
    from kvsim.policies.retention import AttentionScores
    from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
    from kvsim.sim.scenario.scenario import Scenario

_BATCHINGS: Final = ("mixed-running-first", "iteration-level")


def check_retention(scenario: Scenario, groups: tuple[KVGroup, ...], *, caches: bool) -> None:
    """Refuse what nobody says how to combine with dropping; ``groups``: the model's KV.

    Raises
    ------
    ValueError
        With the two keys that contradict each other.
    """
    table = scenario.retention
    if table.kind == "model":
        return
    retention = f"retention.kind = {table.kind!r}"
    table.budget_and_recent()
    if scenario.allocator.kind != "paged" or scenario.allocator.prefix == "radix":
        raise ValueError(
            f"{retention} drops tokens from block tables: it needs allocator.kind = 'paged', with "
            "allocator.prefix = 'hash', 'none' or 'auto'"
        )
    if len(groups) > 1 or groups[0].sliding_window is not None:
        raise ValueError(
            f"{retention} says what full attention keeps; this model has windows or several KV "
            "groups: choose retention.kind = 'model'"
        )
    if scenario.batching.policy not in _BATCHINGS:
        raise ValueError(
            f"batching.policy = {scenario.batching.policy!r} counts memory for all tokens, "
            f"{retention} drops some: choose {' or '.join(map(repr, _BATCHINGS))}"
        )
    if scenario.allocator.samples == "group":
        raise ValueError(
            f"allocator.samples = 'group' shares blocks of whole contexts, {retention} drops "
            "tokens from them: set allocator.samples = 'requests'"
        )
    if scenario.batching.reserve_predicted_output:
        raise ValueError(
            f"batching.reserve_predicted_output counts memory for all tokens, {retention} drops "
            "some: set it to false"
        )
    if scenario.preemption.mode != "recompute":
        raise ValueError(
            f"{retention} leaves gaps in block tables, which preemption.mode = "
            f"{scenario.preemption.mode!r} does not copy: choose 'recompute'"
        )
    if caches and scenario.eviction.capacity == float("inf"):
        raise ValueError(
            f"eviction.capacity = inf brings back what full attention needs, {retention} needs less"
            ": give a number of blocks, or 'none'"
        )


def retention_keys_set_aside(scenario: Scenario) -> list[str]:
    """Sentences on keys that the kind does not read."""
    table, default = scenario.retention, Retention()
    notes = [
        f"retention.kind = {table.kind!r}: retention.{name_of(item)} is unused"
        for item in fields(table)
        if key_of(item).of
        and table.kind not in key_of(item).of
        and getattr(table, item.name) != getattr(default, item.name)
    ]
    if table.kind == "heavy-hitters" and table.scores is not None:
        notes += [
            f"retention.scores has one score a layer: retention.{key} is unused"
            for key in ("heads", "head_agreement")
            if getattr(table, key) != getattr(default, key)
        ]
    return notes


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
