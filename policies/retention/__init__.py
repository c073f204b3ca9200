"""Which tokens one KV group keeps of a sequence.

The contract is :mod:`~kvsim.policies.retention.base`. ``heavy_hitters`` chooses by the scores of
``scores`` and ``mass``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.policies.registry import Registry
from kvsim.policies.retention.full import Full
from kvsim.policies.retention.heavy_hitters import HeavyHitters
from kvsim.policies.retention.scores import AttentionScores, read_scores
from kvsim.policies.retention.sinks_recent import SinksRecent

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.retention.base import Retention
    from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig


def as_model(_config: SchedulerConfig, group: KVGroup, _seed: int) -> Retention:
    """What the model attends to: everything, or its sliding window."""
    if group.sliding_window is None:
        return Full()
    return SinksRecent(0, group.sliding_window, exact=True)


def sinks_recent(config: SchedulerConfig, _group: KVGroup, _seed: int) -> Retention:
    """The first tokens and the last ones (StreamingLLM)."""
    return SinksRecent(config.retention.sinks, config.retention.budget_and_recent()[1])


def fifo(config: SchedulerConfig, _group: KVGroup, _seed: int) -> Retention:
    """The last tokens, as many as the budget allows."""
    return SinksRecent(0, config.retention.budget_and_recent()[1])


def heavy_hitters(config: SchedulerConfig, _group: KVGroup, seed: int) -> Retention:
    """The last tokens and those that get most attention (H2O)."""
    budget, recent = config.retention.budget_and_recent()
    return HeavyHitters(
        budget - recent,
        recent,
        num_heads=config.retention_heads,
        agreement=config.retention.head_agreement,
        seed=seed,
        scores=scores_of(config),
    )


def scores_of(config: SchedulerConfig) -> AttentionScores | None:
    """Return the file of attention scores, if one is given.

    Raises
    ------
    ValueError
        If the file cannot be used, or a sequence may grow beyond its positions.
    """
    if config.retention.scores is None:
        return None
    scores = read_scores(Path(config.retention.scores))
    if scores.num_positions < config.max_model_len:
        raise ValueError(
            f"retention.scores covers {scores.num_positions:,} positions, but sequences may have "
            f"engine.max_model_len = {config.max_model_len:,}: lower it"
        )
    return scores


RETENTION: Final[Registry[Callable[[SchedulerConfig, KVGroup, int], Retention]]] = Registry(
    "retention",
    {
        "model": as_model,
        "sinks-recent": sinks_recent,
        "fifo": fifo,
        "heavy-hitters": heavy_hitters,
    },
)


def make_retention(config: SchedulerConfig, group: KVGroup, seed: int = 0) -> Retention:
    """Build the retention of one KV group from a run's options."""
    return RETENTION.find(config.retention.kind)(config, group, seed)


__all__ = [
    "RETENTION",
    "AttentionScores",
    "Full",
    "HeavyHitters",
    "SinksRecent",
    "make_retention",
    "read_scores",
    "scores_of",
]
