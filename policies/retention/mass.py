"""Attention mass kept: the share of the attention scores that the kept tokens have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.policies.retention.heavy_hitters import HeavyHitters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kvsim.policies.retention.base import Retention
    from kvsim.policies.retention.scores import AttentionScores


def mean_mass_kept(
    retention: Retention, scores: AttentionScores, contexts: Mapping[int, int]
) -> float | None:
    """Return the kept tokens' mean share of the scores of all tokens, including the current one.

    ``contexts``: number of decodes for each number of computed tokens. The mean is over decodes and
    layers; ``None`` without a decode. O(contexts x layers x positions).
    """
    total = 0.0
    for computed, number in contexts.items():
        shares = [_share(retention, layer[: computed + 1]) for layer in scores.by_layer]
        total += number * float(np.mean(shares))
    num_decodes = sum(contexts.values())
    return total / num_decodes if num_decodes else None


def _share(retention: Retention, seen: NDArray[np.float64]) -> float:
    """Return the kept share of one layer's scores; ``seen``: scores up to the current token."""
    part = seen / seen.max()  # sums of large scores overflow
    return float((_kept_sum(retention, part, len(part) - 1) + part[-1]) / part.sum())


def _kept_sum(retention: Retention, layer: NDArray[np.float64], computed: int) -> float:
    """Return the sum of the scores that one layer keeps."""
    if not isinstance(retention, HeavyHitters):
        return sum(float(layer[p.start : p.stop].sum()) for p in retention.kept(-1, computed))
    num_old = max(0, computed - retention.recent + 1)
    heaviest = np.sort(layer[:num_old])[max(0, num_old - retention.heavy) :]
    return float(heaviest.sum() + layer[num_old:computed].sum())
