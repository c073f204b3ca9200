"""Attention mass kept: the share of the scores that what is kept stands for."""

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
    """Share of the scores of all tokens so far that the kept ones have, the current one included.

    ``contexts``: how many decodes saw so many computed tokens. The mean is over decodes and layers;
    ``None`` without a decode. O(contexts x layers x positions).
    """
    total = 0.0
    for computed, number in contexts.items():
        shares = [_share(retention, layer[: computed + 1]) for layer in scores.by_layer]
        total += number * float(np.mean(shares))
    num_decodes = sum(contexts.values())
    return total / num_decodes if num_decodes else None


def _share(retention: Retention, seen: NDArray[np.float64]) -> float:
    """Share of one layer's scores that it keeps; ``seen``: up to the current token's."""
    part = seen / seen.max()  # sums of large scores overflow
    return float((_kept_sum(retention, part, len(part) - 1) + part[-1]) / part.sum())


def _kept_sum(retention: Retention, layer: NDArray[np.float64], computed: int) -> float:
    """Sum of the scores that one layer keeps."""
    if not isinstance(retention, HeavyHitters):
        return sum(float(layer[p.start : p.stop].sum()) for p in retention.kept(-1, computed))
    num_old = max(0, computed - retention.recent + 1)
    heaviest = np.sort(layer[:num_old])[max(0, num_old - retention.heavy) :]
    return float(heaviest.sum() + layer[num_old:computed].sum())
