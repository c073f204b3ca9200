"""Attention over the tokens that chosen retention keeps, in the form of a sliding window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.policies.retention import make_retention

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.profile_cost import ProfileCost


def reads_kept(cost: ProfileCost, config: SchedulerConfig) -> ProfileCost:
    """Copy of the cost of a full-attention model under ``config.retention``.

    Decodes pay for the tokens that a head keeps. Queries of a prefill see as many keys as are kept.
    If nothing is dropped before the prompt is whole, they see all keys.
    """
    retention = make_retention(config, config.kv_groups[0])
    seen = config.max_model_len if retention.waits_for_prompt else config.kept_sizes[0]
    attention = (entry._replace(window=seen, window_index=0) for entry in cost.attention)
    return replace(cost, attention=tuple(attention))
