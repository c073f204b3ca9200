"""Quality of predicted output lengths at first admission, over finished requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.documents.summary import Prediction
from kvsim.sim.recording.recorder import FINISHED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.recorder import Recorder


def prediction_quality(recorder: Recorder, name: str) -> Prediction | None:
    """Return rank correlation and prediction errors; ``None`` without predictions. O(n log n)."""
    predicted = np.asarray(recorder.predicted_tokens, dtype=np.int64)
    finished = np.asarray(recorder.status, dtype=np.int8) == FINISHED
    compared = finished & (predicted >= 0)
    if not compared.any():
        return None
    guess = predicted[compared]
    truth = np.asarray(recorder.output_tokens, dtype=np.int64)[compared]
    error = guess - truth
    return Prediction(
        predictor=name,
        num=len(error),
        rank_correlation=rank_correlation(guess, truth),
        over_percent=100 * np.count_nonzero(error > 0) / len(error),
        over_mean_tokens=_mean(error[error > 0]),
        under_percent=100 * np.count_nonzero(error < 0) / len(error),
        under_mean_tokens=_mean(-error[error < 0]),
    )


def rank_correlation(a: NDArray[np.int64], b: NDArray[np.int64]) -> float | None:
    """Return Spearman's correlation of ranks; equal values share their mean rank.

    The result is ``None`` when all values of a column are equal.
    """
    ranks_a, ranks_b = _mean_ranks(a), _mean_ranks(b)
    ranks_a -= ranks_a.mean()
    ranks_b -= ranks_b.mean()
    norm = np.sqrt((ranks_a**2).sum() * (ranks_b**2).sum())
    return float((ranks_a * ranks_b).sum() / norm) if norm else None


def _mean_ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _mean(values: NDArray[np.int64]) -> float | None:
    return float(values.mean()) if len(values) else None
